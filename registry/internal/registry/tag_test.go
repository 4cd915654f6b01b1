package registry

import (
	"context"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
)

// looking is a storage that counts what is looked at.
type looking struct {
	driver.Driver
	looks int
}

func (l *looking) Version(ctx context.Context, path string) (string, bool) {
	l.looks++
	return l.Driver.Version(ctx, path)
}

func (l *looking) Stat(ctx context.Context, path string) (driver.Info, error) {
	l.looks++
	return l.Driver.Stat(ctx, path)
}

func (l *looking) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	l.looks++
	return l.Driver.ReadFile(ctx, path, limit)
}

// Clients ask for a tag before they push it. That it is not there takes four looks
// at its link and one at the repository.
func TestLooksForAMissingTag(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			store := &looking{Driver: open(t)}
			repo := New(Options{Driver: store}).Repository("a")
			pushImage(t, repo, "kept", "x")
			store.looks = 0
			_, err := repo.Manifest(t.Context(), tagged("none"))
			wantCode(t, err, oci.CodeManifestUnknown)
			if store.looks > 5 {
				t.Errorf("%d looks", store.looks)
			}
		})
	}
}
