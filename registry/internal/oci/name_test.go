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

var tagGrammar = regexp.MustCompile(`\A[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}\z`)

func TestParseReference(t *testing.T) {
	sha := "sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct {
		in   string
		want Reference
		code Code
	}{
		{in: "latest", want: Reference{Tag: "latest"}},
		{in: "_V1.0-rc", want: Reference{Tag: "_V1.0-rc"}},
		{in: strings.Repeat("x", MaxTagLength), want: Reference{Tag: Tag(strings.Repeat("x", MaxTagLength))}},
		{in: sha, want: Reference{Digest: Digest(sha)}},
		{in: "", code: CodeTagInvalid},
		{in: ".hidden", code: CodeTagInvalid},
		{in: "-dash", code: CodeTagInvalid},
		{in: "a/b", code: CodeTagInvalid},
		{in: "a\x00", code: CodeTagInvalid},
		{in: strings.Repeat("x", MaxTagLength+1), code: CodeTagInvalid},
		{in: "sha256:abc", code: CodeDigestInvalid},
		{in: "md5:" + strings.Repeat("0", 32), code: CodeDigestInvalid},
		{in: "a:b", code: CodeDigestInvalid},
	} {
		got, err := ParseReference(c.in)
		var e *Error
		if errors.As(err, &e) != (c.code != "") || e != nil && e.Code != c.code {
			t.Errorf("ParseReference(%q): error %v, want code %q", c.in, err, c.code)
		}
		if c.code == "" && (got != c.want || got.String() != c.in) {
			t.Errorf("ParseReference(%q) = %+v, want %+v", c.in, got, c.want)
		}
	}
}

func FuzzParseTag(f *testing.F) {
	for _, s := range []string{"latest", "1.0", ".x", "a:b", "", "_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := ParseTag(s)
		if want := tagGrammar.MatchString(s); (err == nil) != want {
			t.Errorf("ParseTag(%q): error %v, grammar says %v", s, err, want)
		}
	})
}
