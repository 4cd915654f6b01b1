package storagetest

import (
	"errors"
	"fmt"
	"testing"

	"slipway/registry/internal/storage"
)

// RunContinued tests a storage.Continuer of two processes: what it remembers of an upload is gone on
// from only as long as no other process has changed it.
func RunContinued(t *testing.T, open func(t *testing.T) (a, b Instance)) {
	t.Run("UploadContinued", func(t *testing.T) {
		a, b := open(t)
		testUploadContinued(t, pair{a, b}, a.Store.(storage.Continuer)) //nolint:forcetypeassert // the caller says so
		if err := errors.Join(a.Store.Close(), b.Store.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func testUploadContinued(t *testing.T, p pair, c storage.Continuer) {
	key, n := "", 0
	begin := func(t *testing.T) storage.Upload {
		t.Helper()
		n++
		key = fmt.Sprintf("/up/%d/data", n) // as in a registry, no two uploads have one
		u := create(t, p.a.Store, key)
		write(t, u, "one ")
		suspend(t, u, "hash of one")
		u, err := c.ContinueUpload(t.Context(), key, 4)
		if err != nil {
			t.Fatalf("ContinueUpload: %v", err)
		}
		if _, state := u.Progress(); size(u) != 4 || string(state) != "hash of one" {
			t.Fatalf("it has %d bytes and the state %q, want 4 and the hash of one", size(u), state)
		}
		return u
	}
	use := map[string]func(*testing.T, storage.Upload) error{
		"Write":  func(_ *testing.T, u storage.Upload) error { _, err := u.Write([]byte("two")); return err },
		"Reader": func(t *testing.T, u storage.Upload) error { _, err := u.Reader(t.Context(), 0); return err },
		"Apply": func(t *testing.T, u storage.Upload) error {
			return p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
		},
		"Cancel": func(t *testing.T, u storage.Upload) error { return u.Cancel(t.Context()) },
	}
	end := func(t *testing.T) {
		t.Helper()
		apply(t, p.b.Store, storage.Stage{{Key: blobKey, Delete: true}, {Key: key, Delete: true}})
		p.wantGone(t, key)
	}
	for name, f := range use {
		t.Run(name+" of one that nobody else has", func(t *testing.T) {
			u := begin(t)
			if err := f(t, u); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			suspend(t, u, "")
			if name == "Apply" {
				p.wantContent(t, blobKey, "one ")
			}
			end(t)
		})
		t.Run(name+" fences another holder", func(t *testing.T) {
			u := begin(t)
			other := resume(t, p.b.Store, key)
			write(t, other, "late")
			if err := f(t, u); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := other.Suspend(t.Context(), nil); !lost(err) {
				t.Errorf("Suspend of the other: %v, want ErrUploadTaken or ErrNotExist", err)
			}
			suspend(t, u, "")
			if name == "Apply" {
				p.wantContent(t, blobKey, "one ")
			}
			end(t)
		})
		t.Run(name+" of one that another holder has added to", func(t *testing.T) {
			u := begin(t)
			other := resume(t, p.b.Store, key)
			write(t, other, "more")
			suspend(t, other, "")
			wantError(t, name, f(t, u), storage.ErrUploadTaken)
			p.wantAbsent(t, blobKey)
			other = resume(t, p.b.Store, key)
			wantRead(t, other, 0, "one more")
			suspend(t, other, "")
			end(t)
		})
		t.Run(name+" of one that another process has placed", func(t *testing.T) {
			u := begin(t)
			other := resume(t, p.b.Store, key)
			write(t, other, "and all")
			apply(t, p.b.Store, storage.Stage{{Key: blobKey, Upload: other}})
			if err := f(t, u); !lost(err) && name != "Cancel" {
				t.Errorf("%s: %v, want ErrNotExist or ErrUploadTaken", name, err)
			}
			p.wantContent(t, blobKey, "one and all")
			end(t)
		})
	}
	t.Run("Suspend without a change", func(t *testing.T) {
		u := begin(t)
		other := resume(t, p.b.Store, key)
		write(t, other, "more")
		suspend(t, u, "hash of one")
		suspend(t, other, "")
		u, err := c.ContinueUpload(t.Context(), key, 8)
		if err != nil {
			t.Fatalf("ContinueUpload: %v", err)
		}
		wantRead(t, u, 0, "one more")
		suspend(t, u, "")
		end(t)
	})
}
