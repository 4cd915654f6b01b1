package hostile

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	store "slipway/registry/internal/storage/object"
)

// suspended is an upload of "bytes" that p goes on with after a request has ended.
func suspended(t *testing.T, p interface {
	storage.Store
	storage.Continuer
},
) storage.Upload {
	t.Helper()
	u, err := p.CreateUpload(t.Context(), "/up/data", storage.UploadHint{})
	if err == nil {
		_, err = io.WriteString(u, "bytes")
	}
	if err == nil {
		err = u.Suspend(t.Context(), nil)
	}
	if err == nil {
		u, err = p.ContinueUpload(t.Context(), "/up/data", 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Where deletions have conditions, the one of the checkpoint keeps others from taking the upload
// over, and is all that its end costs.
func TestUpload_EndsWithOneRequestForItsCheckpoint(t *testing.T) {
	for name, end := range map[string]func(*Process, storage.Upload) error{
		"Apply": func(p *Process, u storage.Upload) error {
			return p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}})
		},
		"Cancel": func(_ *Process, u storage.Upload) error { return u.Cancel(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := New(Options{})
			p := b.Process()
			defer p.Close()
			u := suspended(t, p)
			var mu sync.Mutex
			var sent []string
			b.SetFault(func(r Request) Fault {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasSuffix(r.Key, "/up/.data") {
					sent = append(sent, r.Op)
				}
				return None
			})
			if err := end(p, u); err != nil {
				t.Fatal(err)
			}
			if want := []string{"DELETE"}; !slices.Equal(sent, want) {
				t.Errorf("%q were sent for the checkpoint, want %q", sent, want)
			}
			if keys := b.Keys(); slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "/up/") }) {
				t.Errorf("left: %q", keys)
			}
		})
	}
}

// An upload that cannot be put in place, though nobody could take it over any more, is there for another
// process again.
func TestUpload_FailedPut_IsSavedAgain(t *testing.T) {
	b, p, q := crash(t)
	u := suspended(t, p)
	b.SetFault(func(r Request) Fault {
		if r.Op == "PUT" && r.Key == "root/blob" {
			return Denied
		}
		return None
	})
	if err := p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); !errors.Is(err, storage.ErrDenied) {
		t.Fatalf("Apply: %v, want ErrDenied", err)
	}
	b.SetFault(nil)
	other, err := q.ResumeUpload(t.Context(), "/up/data")
	if err != nil {
		t.Fatalf("ResumeUpload in the other process: %v", err)
	}
	if err := q.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: other}}); err != nil {
		t.Fatalf("Apply in the other process: %v", err)
	}
	if got, _, err := storage.Read(t.Context(), p, "/blob", 100); err != nil || string(got) != "bytes" {
		t.Errorf("read %q, %v", got, err)
	}
}

// unanswered is a bucket in which deletions get no answer while lost is set.
type unanswered struct {
	*requests
	lost bool
	last func() error // has the last of them take effect
}

func (r *unanswered) Delete(ctx context.Context, key string, c storage.Condition) error {
	if !r.lost {
		return r.requests.Delete(ctx, key, c)
	}
	r.last = func() error { return r.b.delete(key, c) }
	return &store.Trouble{Err: errors.New("no answer"), Effect: store.Lost}
}

// A deletion of the checkpoint that comes late misses the one that is saved after it, also where
// versions are hashes of the content.
func TestUpload_LateDeletionOfItsCheckpoint_Misses(t *testing.T) {
	r := &unanswered{requests: &requests{b: New(Options{ContentVersions: true})}}
	p := store.New(
		store.NewClient(r, "root", r.Limits(), store.Timing{Pause: time.Millisecond, Patience: 20 * time.Millisecond}),
		store.Options{Shared: true, Spool: t.TempDir()},
	)
	defer p.Close()
	u := suspended(t, p)
	r.lost = true
	if err := p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("Apply: %v, want ErrUnavailable", err)
	}
	r.lost = false
	if err := r.last(); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("a late deletion of the checkpoint: %v, want ErrConflict", err)
	}
	u, err := p.ResumeUpload(t.Context(), "/up/data")
	if err == nil {
		err = p.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}})
	}
	if err != nil {
		t.Fatalf("going on with it: %v", err)
	}
	if got, _, err := storage.Read(t.Context(), p, "/blob", 100); err != nil || string(got) != "bytes" {
		t.Errorf("read %q, %v", got, err)
	}
}
