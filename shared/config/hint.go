package config

import (
	"slices"
	"strings"
)

// hint follows "is not a setting": the key most likely meant.
func (f *field) hint(name string) string {
	if near := f.nearest(name); near != nil {
		return "; did you mean " + near.path + "?"
	}
	return ""
}

// nearest returns the key of the section that resembles name most, or nil.
func (f *field) nearest(name string) (best *field) {
	name = strings.ToLower(name)
	least := 3
	for _, c := range f.children {
		if c.kind >= dead {
			continue
		}
		for _, known := range c.names {
			d := distance(name, known)
			if len(name) > 2 && strings.HasPrefix(known, name) {
				d = 1
			}
			if d < least && d < len(name) {
				best, least = c, d
			}
		}
	}
	return best
}

// distance is the Levenshtein distance of two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			substituted := previous[j]
			if a[i] != b[j] {
				substituted++
			}
			row[j+1] = min(previous[j+1]+1, row[j]+1, substituted)
		}
	}
	return row[len(b)]
}
