package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/upload"
)

// closed is a store that nobody can join, for a while.
type closed struct {
	both
	mu  sync.Mutex
	err error
}

func (c *closed) Join(ctx context.Context) (storage.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	return c.both.Join(ctx)
}

func (c *closed) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = nil
}

func openClosed(t *testing.T, err error) (*Registry, *closed) {
	t.Helper()
	c := &closed{both: memory.New(), err: err}
	r := newRegistry(c, Options{DeleteEnabled: true})
	pushImage(t, r.Repository("a"), "v1", "old") // before it serves
	leave, got := r.Serve(t.Context())
	if !errors.Is(got, err) {
		t.Fatalf("serving: %v, want %v", got, err)
	}
	t.Cleanup(leave)
	return r, c
}

// Until it has joined the registry accepts no push, but it is read and deletes. It
// joins by itself as soon as that is possible.
func TestPushesWaitForJoining(t *testing.T) {
	for _, cause := range []error{storage.ErrNoSpace, storage.ErrReadOnly, storage.ErrBusy} {
		synctest.Test(t, func(t *testing.T) {
			r, c := openClosed(t, cause)
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
				if !strings.Contains(err.Error(), "pushes are not accepted now: ") {
					t.Errorf("%s: %v", name, err)
				}
			}
			m, err := repo.Manifest(t.Context(), oci.Reference{Tag: "v1"})
			check(t, err)
			_, err = repo.Manifest(t.Context(), oci.Reference{Digest: m.Digest})
			check(t, err)
			_, err = repo.StatManifest(t.Context(), oci.Reference{Tag: "v1"})
			check(t, err)
			for name, ask := range map[string]func() error{
				"blob":     func() error { _, err := repo.StatBlob(t.Context(), sum("layer old")); return err },
				"manifest": func() error { _, err := repo.StatManifest(t.Context(), oci.Reference{Digest: m.Digest}); return err },
			} {
				err := ask()
				if cause == storage.ErrReadOnly { //nolint:errorlint // itself
					check(t, err) // nobody pushes here
				} else if !isCode(err, oci.CodeUnavailable) || !strings.Contains(err.Error(), "nothing can be promised now: ") {
					t.Errorf("HEAD of a %s: %v", name, err)
				}
			}
			check(t, deleteTag(t.Context(), repo, "v1"))
			_, err = repo.DeleteManifest(t.Context(), m.Digest)
			check(t, err)

			c.open()
			time.Sleep(2 * joinEvery)
			pushImage(t, repo, "v2", "new")
			if _, err := c.Exclusive(t.Context()); !errors.Is(err, storage.ErrBusy) {
				t.Errorf("another process is alone: %v", err)
			}
		})
	}
}

// An upload that began before waits, too, and can be cancelled.
func TestUploadWaitsForJoining(t *testing.T) {
	r, c := openClosed(t, storage.ErrNoSpace)
	repo := r.Repository("a")
	id := layout.NewUploadID()
	putObject(t, c, layout.UploadStartedAt("a", id), string(layout.StartedAt(r.now())))
	u, err := repo.ResumeUpload(t.Context(), id, upload.Point{})
	check(t, err)
	_, err = u.Append(t.Context(), strings.NewReader("x"))
	wantCode(t, err, oci.CodeUnavailable)
	_, err = u.Commit(t.Context(), oci.SHA256.FromBytes(nil))
	wantCode(t, err, oci.CodeUnavailable)
	check(t, u.Cancel(t.Context()))
	check(t, u.Close())
}

// leasing is a store whose leases can be lost.
type leasing struct {
	both
	lost  chan chan struct{} // one for each lease that was given
	joins int
}

type losable struct {
	storage.Lease
	lost chan struct{}
}

func (l losable) Lost() <-chan struct{} { return l.lost }

func (l *leasing) Join(ctx context.Context) (storage.Lease, error) {
	if l.joins++; l.joins == 2 {
		return nil, fmt.Errorf("once more: %w", storage.ErrUnavailable)
	}
	lease, err := l.both.Join(ctx)
	lost := make(chan struct{})
	l.lost <- lost
	return losable{lease, lost}, err
}

// Without its lease the registry accepts no push until it has joined again.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leasing{both: memory.New(), lost: make(chan chan struct{}, 10)}
		r := newRegistry(store, Options{})
		leave, err := r.Serve(t.Context())
		check(t, err)
		defer leave()
		pushBlob(t, r.Repository("a"), "x")
		close(<-store.lost)
		synctest.Wait()
		_, err = r.Repository("a").StartUpload(t.Context(), "")
		wantCode(t, err, oci.CodeUnavailable)
		time.Sleep(2 * joinEvery)
		pushBlob(t, r.Repository("a"), "y")
	})
}

// Who serves keeps an offline collection out until it leaves.
func TestServeJoins(t *testing.T) {
	store := memory.New()
	leave, err := newRegistry(store, Options{}).Serve(t.Context())
	check(t, err)
	if _, err := store.Exclusive(t.Context()); !errors.Is(err, storage.ErrBusy) {
		t.Errorf("another process is alone: %v", err)
	}
	leave()
	_, err = store.Exclusive(t.Context())
	check(t, err)
}
