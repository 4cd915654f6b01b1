package filesystem

import (
	"path"
	"testing"
)

func TestDirOf(t *testing.T) {
	for _, name := range []string{"/", "/a", "/a/b", "/srv/registry/docker"} {
		if got, want := dirOf(name), path.Dir(name); got != want {
			t.Errorf("dirOf(%s) = %s, want %s", name, got, want)
		}
	}
}
