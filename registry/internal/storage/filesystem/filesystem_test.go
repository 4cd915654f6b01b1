package filesystem

import (
	"os"
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/storagetest"
)

func TestContract(t *testing.T) {
	storagetest.Run(t, storagetest.Scale{}, func(t *testing.T) (a, b storage.Store) {
		root := t.TempDir()
		return openRoot(t, root), openRoot(t, root)
	})
}

func openRoot(t testing.TB, root string) *Store {
	t.Helper()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrivateKeys(t *testing.T) {
	root := t.TempDir()
	s, err := Open(root, "/a/auth")
	check(t, err)
	defer s.Close()
	for range 2 { // created and replaced
		for _, key := range []string{"/a/auth/keys", "/a/auth/more/keys", "/a/authority"} {
			apply(t, s, storage.Change{Key: key, Content: []byte("a secret")})
		}
	}
	for path, private := range map[string]bool{"/a": false, "/a/authority": false, "/a/auth": true, "/a/auth/keys": true, "/a/auth/more": true, "/a/auth/more/keys": true} {
		info, err := os.Stat(root + path)
		check(t, err)
		if got := info.Mode().Perm()&0o077 == 0; got != private {
			t.Errorf("%s has mode %v, want private %v", path, info.Mode().Perm(), private)
		}
	}
}
