package secretfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRestrict(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	world, group, own := make("world", 0o644), make("group", 0o640), make("own", 0o600)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(world, link); err != nil {
		t.Fatal(err)
	}
	all := []string{world, group, own, sub, link, filepath.Join(dir, "missing")}
	want := []string{world, group, sub}
	if got := Exposed(all...); !slices.Equal(got, want) {
		t.Errorf("Exposed = %q, want %q", got, want)
	}
	if got, err := Restrict(all...); err != nil || !slices.Equal(got, want) {
		t.Errorf("Restrict = %q, %v, want %q", got, err, want)
	}
	for path, want := range map[string]fs.FileMode{world: 0o600, group: 0o600, own: 0o600, sub: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode().Perm(), err, want)
		}
	}
	if got, err := Restrict(all...); err != nil || got != nil {
		t.Errorf("a second Restrict = %q, %v, want nothing", got, err)
	}
}
