package memory

import (
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/storagetest"
)

func TestContract(t *testing.T) {
	storagetest.Run(t, storagetest.Scale{}, func(*testing.T) (a, b storage.Store) {
		m := New()
		return m, m
	})
}
