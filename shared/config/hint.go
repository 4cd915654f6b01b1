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
func (f *field) nearest(name string) *field {
	var known []string
	byName := map[string]*field{}
	for _, c := range f.children {
		if c.kind >= dead {
			continue
		}
		for _, n := range c.names {
			known = append(known, n)
			byName[n] = c
		}
	}
	return byName[Nearest(strings.ToLower(name), known)]
}

// Nearest returns the known word that the misspelled one resembles most, "" if it resembles none.
func Nearest(word string, known []string) (best string) {
	least := 3
	for _, k := range known {
		d := distance(word, k)
		if len(word) > 2 && strings.HasPrefix(k, word) {
			d = 1
		}
		if d < least && d < len(word) {
			best, least = k, d
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
