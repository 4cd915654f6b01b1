package filesystem

import (
	"testing"

	"slipway/registry/internal/storage/storagetest"
)

func TestContract(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (a, b storagetest.Instance) {
		root := t.TempDir()
		return instance(openRoot(t, root)), instance(openRoot(t, root))
	})
}

func instance(s *Store) storagetest.Instance {
	return storagetest.Instance{Store: s, Coordinator: s.Coordinator()}
}

func openRoot(t testing.TB, root string) *Store {
	t.Helper()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
