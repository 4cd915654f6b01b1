package registry

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// full is a storage on which nobody can be told anything, for a while.
type full struct {
	driver.Driver
	err   error
	room  atomic.Bool
	tries atomic.Int64
}

func (f *full) Serve(ctx context.Context) (func(), error) {
	f.tries.Add(1)
	if !f.room.Load() {
		return nil, f.err
	}
	return f.Driver.Serve(ctx)
}

func openFull(t *testing.T, err error) (*Registry, *full) {
	t.Helper()
	f := &full{Driver: memory.New(), err: err}
	r := New(Options{Driver: f, DeleteEnabled: true, PromiseAge: 1})
	pushImage(t, r.Repository("a"), "v1", "old") // before it served
	leave, got := r.Serve(t.Context())
	if !errors.Is(got, err) {
		t.Fatalf("serving: %v, want %v", got, err)
	}
	t.Cleanup(leave)
	return r, f
}

// Until collectors know of this registry it takes no push, but it is read and
// gives room back.
func TestPushesAreHeldBack(t *testing.T) {
	for _, cause := range []error{driver.ErrNoSpace, driver.ErrReadOnly, context.DeadlineExceeded} {
		t.Run(cause.Error(), func(t *testing.T) {
			r, f := openFull(t, cause)
			repo := r.Repository("a")
			for name, push := range map[string]func() error{
				"upload": func() error { _, err := repo.StartUpload(t.Context(), ""); return err },
				"mount": func() error {
					_, err := r.Repository("b").MountBlob(t.Context(), oci.SHA256.FromBytes([]byte("x")), "a", nil)
					return err
				},
				"manifest": func() error {
					_, err := repo.PutManifest(t.Context(), oci.Reference{Tag: "v2"}, "", []byte("{}"), nil)
					return err
				},
			} {
				err := push()
				wantCode(t, err, oci.CodeUnavailable)
				if err == nil || !strings.Contains(err.Error(), "pushes are held back: ") {
					t.Errorf("%s: %v", name, err)
				}
			}
			m, err := repo.Manifest(t.Context(), oci.Reference{Tag: "v1"})
			check(t, err)
			check(t, repo.DeleteTag(t.Context(), "v1"))
			_, err = repo.DeleteManifest(t.Context(), m.Digest)
			check(t, err)

			f.room.Store(true)
			pushImage(t, repo, "v2", "new")
			tries := f.tries.Load()
			pushImage(t, repo, "v3", "newer")
			if n, err := f.Servers(t.Context()); n != 1 || err != nil || f.tries.Load() != tries {
				t.Errorf("%d servers, %v, %d tries after %d", n, err, f.tries.Load(), tries)
			}
		})
	}
}

// An upload that began in better times waits, too, and can be cancelled.
func TestUploadIsHeldBack(t *testing.T) {
	r, f := openFull(t, driver.ErrNoSpace)
	repo := r.Repository("a")
	id := layout.NewUploadID()
	check(t, f.WriteScratch(t.Context(), layout.UploadStartedAt("a", id), layout.StartedAt(r.now())))
	u, err := repo.ResumeUpload(t.Context(), id)
	check(t, err)
	_, err = u.Append(t.Context(), strings.NewReader("x"))
	wantCode(t, err, oci.CodeUnavailable)
	_, err = u.Commit(t.Context(), oci.SHA256.FromBytes(nil))
	wantCode(t, err, oci.CodeUnavailable)
	check(t, u.Cancel(t.Context()))
	check(t, u.Close())
}

// Looks and the health check tell collectors as soon as that can be.
func TestServingIsTriedAgain(t *testing.T) {
	for name, try := range map[string]func(*Registry) error{
		"check": func(r *Registry) error { return r.Check(t.Context(), true) },
		"look": func(r *Registry) error {
			m, err := r.Repository("a").Manifest(t.Context(), oci.Reference{Tag: "v1"})
			if err == nil {
				_, err = r.Repository("a").Manifest(t.Context(), oci.Reference{Digest: m.Digest})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := openFull(t, driver.ErrNoSpace)
			f.room.Store(true)
			check(t, try(r))
			if n, _ := f.Servers(t.Context()); n != 1 {
				t.Errorf("%d servers", n)
			}
		})
	}
}
