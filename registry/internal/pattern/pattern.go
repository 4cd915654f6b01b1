// Package pattern selects repositories and tags by the patterns of the
// configuration.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"slipway/registry/internal/oci"
)

// Names selects repositories. The zero value selects none.
type Names struct {
	any []*regexp.Regexp
	all bool // "**" is among the patterns
}

// ParseNames reads patterns of repository names: "*" stands for anything within
// one component of the name, "**" for anything, all else for itself. The error joins
// those of all patterns.
func ParseNames(patterns []string) (Names, error) {
	var n Names
	var errs []error
	for _, p := range patterns {
		re, err := glob(p)
		n.any, n.all, errs = append(n.any, re), n.all || p == "**", append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Names{}, err
	}
	return n, nil
}

// All reports whether every repository is selected, by "**".
func (n Names) All() bool { return n.all }

func glob(p string) (*regexp.Regexp, error) {
	if i := strings.IndexFunc(p, foreign); i >= 0 || p == "" {
		return nil, fmt.Errorf("%q is not a pattern of repositories such as team/* or team/**", p)
	}
	if MatchesNone(p) {
		return nil, fmt.Errorf("%q can match no repository%s", p, matching(p))
	}
	quoted := regexp.QuoteMeta(p)
	quoted = strings.ReplaceAll(quoted, `\*\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\*`, `[^/]*`)
	return regexp.Compile(`^(?:` + quoted + `)$`)
}

// foreign reports whether no name and no pattern has the character.
func foreign(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._-/*", c)
}

// MatchesNone reports whether the text is a pattern, and one that no repository's name can match. If
// any text in the place of a "*" makes it a name, a letter does.
func MatchesNone(p string) bool {
	if p == "" || strings.ContainsFunc(p, foreign) {
		return false
	}
	_, err := oci.ParseName(stars.ReplaceAllLiteralString(p, "x"))
	return err != nil
}

var stars = regexp.MustCompile(`\*+`)

// matching is the advice to write the pattern without the slashes that are too many, if that helps.
func matching(p string) string {
	parts := strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
	if better := strings.Join(parts, "/"); better != "" && better != p && !MatchesNone(better) {
		return "; write " + better
	}
	return ""
}

// Match reports whether one of the patterns is that of the name.
func (n Names) Match(name oci.Name) bool {
	if n.all {
		return true
	}
	for _, re := range n.any {
		if re.MatchString(string(name)) {
			return true
		}
	}
	return false
}

// Tags selects tags. The zero value selects none.
type Tags struct{ any []*regexp.Regexp }

// ParseTags reads regular expressions, each of which is for the whole tag: "v1"
// is not a pattern of "v10".
func ParseTags(expressions []string) (Tags, error) {
	var t Tags
	for _, e := range expressions {
		if _, err := regexp.Compile(e); err != nil && strings.HasPrefix(e, "*") {
			return Tags{}, fmt.Errorf("%w; .* stands for anything", err)
		} else if err != nil {
			return Tags{}, err
		}
		re, err := regexp.Compile(`^(?:` + e + `)$`)
		if err != nil {
			return Tags{}, err
		}
		t.any = append(t.any, re)
	}
	return t, nil
}

// Empty reports whether there are no patterns.
func (t Tags) Empty() bool { return len(t.any) == 0 }

// Match reports whether one of the expressions is that of the tag.
func (t Tags) Match(tag oci.Tag) bool {
	for _, re := range t.any {
		if re.MatchString(string(tag)) {
			return true
		}
	}
	return false
}

// MustNames is ParseNames for patterns that have been checked; it panics on others.
func MustNames(patterns []string) Names {
	compiled, err := ParseNames(patterns)
	if err != nil {
		panic(err)
	}
	return compiled
}

// MustTags is ParseTags for expressions that have been checked; it panics on others.
func MustTags(expressions []string) Tags {
	compiled, err := ParseTags(expressions)
	if err != nil {
		panic(err)
	}
	return compiled
}
