package driver

import (
	"path"
	"strings"
	"testing"
)

func TestValidPath(t *testing.T) {
	valid := []string{"/a", "/docker/registry/v2/repositories/a/_layers/sha256/0/link", "/A-b_c.d", "/-", "/_uploads", "/v1.tmp", "/a..b"}
	for _, p := range valid {
		if !ValidPath(p) {
			t.Errorf("%q is refused", p)
		}
	}
	invalid := []string{
		"", "/", "a", "//", "/a/", "//a", "/a//b", "/.", "/..", "/.staging/x", "/a/..", "/a/../b", "/a/./b", "/a\x00", "/a b", "/a\\b",
		"/a%2e", "/é", "/a:b", "/a\n", "/" + strings.Repeat("a", maxPath),
	}
	for _, p := range invalid {
		if ValidPath(p) {
			t.Errorf("%q is accepted", p)
		}
	}
}

// FuzzValidPath checks that no valid path leaves the root or reaches what is
// private to a driver.
func FuzzValidPath(f *testing.F) {
	f.Add("/docker/registry/v2")
	f.Add("/../etc")
	f.Fuzz(func(t *testing.T, p string) {
		if !ValidPath(p) {
			return
		}
		if got := path.Clean("/root" + p); got != "/root"+p {
			t.Errorf("%q is accepted and leads to %q", p, got)
		}
		for name := range strings.SplitSeq(p[1:], "/") {
			if name == "" || name[0] == '.' {
				t.Errorf("%q has the component %q", p, name)
			}
		}
	})
}

func TestTemporary(t *testing.T) {
	for e, want := range map[Entry]bool{
		{Name: "link.0b5e.tmp"}: true, {Name: "link"}: false, {Name: "v1.tmp", Dir: true}: false, {Name: "tmp"}: false,
	} {
		if got := e.Temporary(); got != want {
			t.Errorf("%+v: Temporary = %v, want %v", e, got, want)
		}
	}
}
