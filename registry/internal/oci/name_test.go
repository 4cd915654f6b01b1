package oci

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// The grammar as distribution-spec writes it, to hold the hand-written parser
// against.
var nameGrammar = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

func TestParseName(t *testing.T) {
	for name, want := range map[string]bool{
		"a":                                  true,
		"library/alpine":                     true,
		"a/b/c/d/e/f":                        true,
		"a.b_c__d-e---f/0":                   true,
		"1":                                  true,
		strings.Repeat("a", MaxNameLength):   true,
		strings.Repeat("a", MaxNameLength+1): false,
		"":                                   false,
		"/":                                  false,
		"/a":                                 false,
		"a/":                                 false,
		"a//b":                               false,
		"A":                                  false,
		"a..b":                               false,
		"a___b":                              false,
		"a.-b":                               false,
		"a_":                                 false,
		"-a":                                 false,
		".":                                  false,
		"..":                                 false,
		"a/../b":                             false,
		"a/./b":                              false,
		"_layers":                            false,
		"a/_tags":                            false,
		"a\x00b":                             false,
		"a b":                                false,
		"ä":                                  false,
		"host:5/a":                           false,
	} {
		got, err := ParseName(name)
		if (err == nil) != want {
			t.Errorf("ParseName(%q): error %v, want valid %v", name, err, want)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Code != CodeNameInvalid) {
			t.Errorf("ParseName(%q): %v, want code %s", name, err, CodeNameInvalid)
		}
		if err == nil && string(got) != name {
			t.Errorf("ParseName(%q) = %q", name, got)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"a", "library/alpine", "a..b", "a__b/c", "a---", "../x", "a/\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := ParseName(s)
		if want := len(s) <= MaxNameLength && nameGrammar.MatchString(s); (err == nil) != want {
			t.Errorf("ParseName(%q): error %v, grammar says %v", s, err, want)
		}
	})
}
