package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing wrong with one setting.
type Problem struct {
	// Key is the path of the setting, such as http.tls.certificate.
	Key string
	// Origin is where it was given, such as "config.yml:12" or the name of a variable.
	Origin string
	// Text describes what is wrong, and what would be right.
	Text string
}

// Error is the key, what is wrong, and where.
func (p *Problem) Error() string {
	text := p.Text
	if p.Key != "" {
		text = p.Key + ": " + text
	}
	if p.Origin != "" {
		text += " (" + p.Origin + ")"
	}
	return text
}

// Problems collects what is wrong, so that an operator hears all of it at once.
type Problems struct{ list []*Problem }

// Addf adds a problem with the setting key.
func (p *Problems) Addf(key, format string, args ...any) { p.add(key, "", format, args...) }

func (p *Problems) add(key, origin, format string, args ...any) {
	p.list = append(p.list, &Problem{Key: key, Origin: origin, Text: fmt.Sprintf(format, args...)})
}

// Err joins what was collected; nil when nothing was.
func (p *Problems) Err() error {
	all := make([]error, len(p.list))
	for i, one := range p.list {
		all[i] = one
	}
	return errors.Join(all...)
}

// hint follows "is not a setting": the key most likely meant, or those of the section. A key
// outside its section is looked for in all.
func (f *field) hint(name string) string {
	near := f.nearest(name)
	if f.parent == nil && (near == nil || !strings.EqualFold(near.name, name)) {
		near = cmp.Or(f.find(name), near)
	}
	if near == nil {
		return f.contents()
	}
	return "; did you mean " + near.path + "?"
}

// find returns the first key below that has the name, or nil.
func (f *field) find(name string) *field {
	below := f.children
	if f.elem != nil {
		below = f.elem.children
	}
	for _, c := range below {
		if c.name == name {
			return c
		}
	}
	for _, c := range below {
		if found := c.find(name); found != nil {
			return found
		}
	}
	return nil
}

// contents lists the keys of a section.
func (f *field) contents() string {
	names := make([]string, len(f.children))
	for i, c := range f.children {
		names[i] = c.name
	}
	if f.path == "" {
		return "; there are " + strings.Join(names, ", ")
	}
	return "; " + f.path + " has " + strings.Join(names, ", ")
}

// nearest returns the key of the section that resembles name most, or nil.
func (f *field) nearest(name string) (best *field) {
	name = strings.ToLower(name)
	distance := max(1, len(name)/3) + 1
	for _, c := range f.children {
		for _, known := range append([]string{c.name}, c.words("alias")...) {
			d := editDistance(name, known)
			if len(name) > 2 && strings.HasPrefix(known, name) {
				d = min(d, 1)
			}
			if d < distance {
				best, distance = c, d
			}
		}
	}
	return best
}

// maxName is the length from which a name resembles no key.
const maxName = 64

// editDistance counts the letters to insert, drop, change or swap with their neighbor to get
// from a to b.
func editDistance(a, b string) int {
	if len(a) > maxName {
		return len(a)
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
