package storage

import (
	"path"
	"strings"
	"testing"
)

func TestValidKey(t *testing.T) {
	valid := []string{"/a", "/docker/registry/v2/repositories/a/_layers/sha256/0/link", "/A-b_c.d", "/-", "/_uploads", "/v1.tmp", "/a..b"}
	for _, p := range valid {
		if !ValidKey(p) {
			t.Errorf("%q is refused", p)
		}
	}
	invalid := []string{
		"", "/", "a", "//", "/a/", "//a", "/a//b", "/.", "/..", "/.staging/x", "/a/..", "/a/../b", "/a/./b", "/a\x00", "/a b", "/a\\b",
		"/a%2e", "/é", "/a:b", "/a\n", "/" + strings.Repeat("a", maxKey),
	}
	for _, p := range invalid {
		if ValidKey(p) {
			t.Errorf("%q is accepted", p)
		}
	}
}

// FuzzValidKey checks that no valid path leaves the root or reaches what is
// private to a driver.
func FuzzValidKey(f *testing.F) {
	f.Add("/docker/registry/v2")
	f.Add("/../etc")
	f.Fuzz(func(t *testing.T, p string) {
		if !ValidKey(p) {
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
