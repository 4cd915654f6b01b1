package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is one entry of the environment.
type variable struct{ name, value string }

// variables splits the environment, dropping what is empty.
func variables(environ []string) []variable {
	var vars []variable
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			vars = append(vars, variable{name, value})
		}
	}
	slices.SortFunc(vars, func(a, b variable) int { return compareNames(a.name, b.name) })
	return vars
}

// compareNames orders by the words between underscores, numbers by value, so
// that a section comes before what is in it and item 2 before item 10.
func compareNames(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "_"), strings.Split(b, "_"), func(x, y string) int {
		m, errX := strconv.Atoi(x)
		n, errY := strconv.Atoi(y)
		switch {
		case errX == nil && errY == nil:
			return cmp.Or(cmp.Compare(m, n), cmp.Compare(x, y))
		case errX == nil:
			return -1
		case errY == nil:
			return 1
		}
		return cmp.Compare(x, y)
	})
}

var injectedPort = regexp.MustCompile(`_PORT_[0-9]+_(TCP|UDP|SCTP)(_|$)`)

// injected reports whether a container platform makes such a variable for a
// service that happens to be called like ours.
func (v variable) injected() bool {
	switch {
	case strings.HasSuffix(v.name, "_SERVICE_HOST"),
		strings.HasSuffix(v.name, "_SERVICE_PORT"),
		strings.Contains(v.name, "_SERVICE_PORT_"),
		strings.HasSuffix(v.name, "_PORT") && strings.Contains(v.value, "://"),
		v.name == "REGISTRY_AUTH_FILE": // podman's and skopeo's credential file
		return true
	}
	return injectedPort.MatchString(v.name)
}

// step is one part of the way from the root to a setting.
type step struct {
	key   string
	index int
	field *field
}

// resolve finds the setting that the rest of a variable's name means. When
// there is none it returns the deepest section that the name leads into.
func (f *field) resolve(rest string, steps []step) (found []step, deepest *field, unknown string) {
	if rest == "" || f.kind.status() != "" {
		return steps, f, ""
	}
	deepest, unknown = f, rest
	for _, c := range f.candidates(rest) {
		found, under, left := c.field.resolve(c.rest, append(slices.Clone(steps), c.step))
		if left == "" {
			return found, under, ""
		}
		if len(left) < len(unknown) {
			deepest, unknown = under, left
		}
	}
	return nil, deepest, unknown
}

type candidate struct {
	step
	rest string
}

// candidates are the ways into the field that the name allows, the longest
// key first.
func (f *field) candidates(rest string) []candidate {
	var all []candidate
	switch f.kind {
	case section:
		for _, c := range f.children {
			for _, name := range c.envNames() {
				if after, ok := cutWord(rest, name); ok {
					all = append(all, candidate{step{key: c.name, field: c}, after})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(len(a.rest), len(b.rest)) })
	case list:
		word, after, _ := strings.Cut(rest, "_")
		if i, err := strconv.Atoi(word); err == nil && i >= 0 {
			all = append(all, candidate{step{index: i, field: f.elem}, after})
		}
	case dict:
		all = f.dictCandidates(rest)
	}
	return all
}

// dictCandidates takes the rest of the name for the key; in a map of lists a
// number at the end is an index.
func (f *field) dictCandidates(rest string) []candidate {
	var all []candidate
	if i := strings.LastIndexByte(rest, '_'); i > 0 && f.elem.kind == list {
		if _, err := strconv.Atoi(rest[i+1:]); err == nil {
			all = append(all, candidate{step{key: rest[:i], field: f.elem}, rest[i+1:]})
		}
	}
	return append(all, candidate{step{key: rest, field: f.elem}, ""})
}

// cutWord cuts a name off the front of rest, when it ends there or at an
// underscore.
func cutWord(rest, name string) (after string, ok bool) {
	if len(rest) < len(name) || !strings.EqualFold(rest[:len(name)], name) {
		return "", false
	}
	if len(rest) == len(name) {
		return "", true
	}
	after, ok = strings.CutPrefix(rest[len(name):], "_")
	return after, ok && after != ""
}
