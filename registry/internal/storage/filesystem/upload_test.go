package filesystem

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
)

const upKey = "/r/_uploads/1/data"

func create(t *testing.T, s *Store) storage.Upload {
	t.Helper()
	u, err := s.OpenUpload(t.Context(), upKey, storage.UploadOptions{Create: true})
	check(t, err)
	return u
}

func TestForeignUploadIsRefused(t *testing.T) {
	one, two := openRoot(t, t.TempDir()), openRoot(t, t.TempDir())
	defer one.Close()
	defer two.Close()
	u := create(t, one)
	if err := two.Apply(t.Context(), nil, storage.Stage{{Key: "/f", Upload: u}}); err == nil {
		t.Error("an upload of another store is applied")
	}
}

// Distribution does not lock: what it appends meanwhile must not end in a blob.
func TestUploadThatSomebodyElseAddedTo(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s)
	_, err := io.WriteString(u, "one ")
	check(t, err)
	f, err := os.OpenFile(s.root+upKey, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString("late")
	check(t, errors.Join(err, f.Close()))
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); !errors.Is(err, storage.ErrUploadTaken) {
		t.Errorf("Apply: %v, want ErrUploadTaken", err)
	}
}

// Of many requests that resume an upload at once, in two processes, one puts it in place.
func TestManyResumeAtOnce(t *testing.T) {
	root := t.TempDir()
	stores := []*Store{openRoot(t, root), openRoot(t, root)}
	u := create(t, stores[0])
	check(t, u.Suspend(t.Context(), size(u), nil))
	var applied atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s := stores[i%2]
			u, err := s.OpenUpload(t.Context(), upKey, storage.UploadOptions{})
			if err == nil {
				_, err = io.WriteString(u, "four")
			}
			if err == nil {
				err = s.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}})
			}
			if err == nil {
				applied.Add(1)
			} else if !errors.Is(err, storage.ErrUploadTaken) && !errors.Is(err, storage.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := readAll(t.Context(), stores[0], "/blob"); err != nil || applied.Load() != 1 || len(b) == 0 || strings.Trim(string(b), "four") != "" || len(b)%4 != 0 {
		t.Errorf("%d were applied, the blob is %q, %v", applied.Load(), b, err)
	}
	for _, s := range stores {
		wantNoUploads(t, s)
		s.Close()
	}
}

// The memory of states is bounded.
func TestStatesAreBounded(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s).(*upload)
	for i := range 2 * maxStates {
		check(t, s.states.keep(strings.Repeat("k", i+1), u.fd, []byte("state")))
	}
	if n := len(s.states.known); n > maxStates {
		t.Errorf("%d states are kept", n)
	}
	if err := u.Suspend(t.Context(), 0, make([]byte, maxState+1)); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("Suspend of a large state: %v, want ErrTooLarge", err)
	}
}

// wantNoUploads checks that no upload is open.
func wantNoUploads(t *testing.T, s *Store) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); strings.HasPrefix(to, s.root+"/r/_uploads/") {
			t.Errorf("%s is open", to)
		}
	}
}

// A backup by hard links takes an upload from nobody.
func TestUploadWithTwoNames(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s)
	_, err := io.WriteString(u, "some")
	check(t, err)
	check(t, u.Suspend(t.Context(), size(u), nil))
	check(t, os.Link(s.root+upKey, t.TempDir()+"/backup"))
	u, err = s.OpenUpload(t.Context(), upKey, storage.UploadOptions{})
	check(t, err)
	_, err = io.WriteString(u, " more")
	check(t, err)
	check(t, s.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}))
	if got, err := os.ReadFile(s.root + "/blob"); err != nil || string(got) != "some more" {
		t.Errorf("the blob is %q, %v", got, err)
	}
}
