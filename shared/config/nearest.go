package config

import "strings"

// nearest returns the path of the key that name most likely means, or "": one of the same
// section that is similar, or, without a section, one of that very name in any.
func (f *field) nearest(name string) string {
	name = strings.ToLower(name)
	best, distance := "", max(1, len(name)/3)+1
	for _, c := range f.children {
		for _, known := range append([]string{c.name}, c.words("alias")...) {
			d := editDistance(name, known)
			if len(name) > 2 && strings.HasPrefix(known, name) {
				d = min(d, 1)
			}
			if d < distance {
				best, distance = joinPath(f.path, known), d
			}
		}
	}
	if f.parent == nil && distance > 1 {
		if elsewhere := f.find(name); elsewhere != "" {
			return elsewhere
		}
	}
	return best
}

// find returns the path of the first key called name below, or "".
func (f *field) find(name string) string {
	for _, c := range f.children {
		if c.name == name {
			return c.path
		}
	}
	below := f.children
	if f.elem != nil {
		below = []*field{f.elem}
	}
	for _, c := range below {
		if found := c.find(name); found != "" {
			return found
		}
	}
	return ""
}

// hint follows "is not a setting": the key most likely meant, or those of the section.
func (f *field) hint(name string) string {
	if near := f.nearest(name); near != "" {
		return "; did you mean " + near + "?"
	}
	return f.contents()
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
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
