package config

import "strings"

// nearest returns the path of the key that name most likely means: one of the same
// section that is a letter away, else one of that very name elsewhere, else one of
// the same section that is similar. It is empty when there is none. Inside a section,
// only a value that has no namesakes is suggested from elsewhere, and none into or out
// of a list or map: what is an entry there is no setting of its own.
func (f *field) nearest(name string) string {
	lower := strings.ToLower(name)
	best, distance := f.nearestChild(lower)
	if best != "" && distance <= 1 {
		return best
	}
	switch elsewhere := f.root().find(lower); {
	case f.parent == nil && len(elsewhere) > 0:
		return elsewhere[0].path
	case len(elsewhere) == 1 && elsewhere[0].kind != section && !elsewhere[0].inside() && !f.inside():
		return elsewhere[0].path
	}
	if distance <= max(1, len(lower)/3) {
		return best
	}
	return ""
}

// hint is what follows "is not a setting": the key that was most likely meant, or
// those that there are.
func (f *field) hint(name string) string {
	if near := f.nearest(name); near != "" {
		return "; did you mean " + near + "?"
	}
	return f.contents()
}

// contents names the keys of a section.
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

func (f *field) nearestChild(name string) (path string, distance int) {
	distance = -1
	for _, c := range f.children {
		for _, known := range append([]string{c.name}, c.words("alias")...) {
			d := editDistance(name, known)
			if len(name) > 2 && strings.HasPrefix(known, name) {
				d = min(d, 1)
			}
			if distance < 0 || d < distance {
				path, distance = joinPath(f.path, known), d
			}
		}
	}
	return path, distance
}

func (f *field) root() *field {
	for f.parent != nil {
		f = f.parent
	}
	return f
}

// inside says whether the field is an entry of a list or map, or within one.
func (f *field) inside() bool {
	for f = f.parent; f != nil; f = f.parent {
		if f.kind == list || f.kind == dict {
			return true
		}
	}
	return false
}

// find returns the keys called name anywhere below.
func (f *field) find(name string) []*field {
	var found []*field
	for _, c := range f.children {
		if c.name == name {
			found = append(found, c)
		}
	}
	below := f.children
	if f.elem != nil {
		below = []*field{f.elem}
	}
	for _, c := range below {
		found = append(found, c.find(name)...)
	}
	return found
}

// maxName is the length from which a name is like no key at all.
const maxName = 64

// editDistance counts the letters to insert, drop, change or swap with their
// neighbour to get from a to b.
func editDistance(a, b string) int {
	if len(a) > maxName {
		return len(a)
	}
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost(a[i-1] != b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

func cost(differs bool) int {
	if differs {
		return 1
	}
	return 0
}
