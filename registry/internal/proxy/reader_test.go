package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// lookingReader calls look before each read.
type lookingReader struct {
	io.Reader
	look func()
}

func (r *lookingReader) Read(p []byte) (int, error) {
	r.look()
	return r.Reader.Read(p)
}

// What is left of an upload may come from a bucket. Nobody else waits while a reader skips what
// it has had already.
func TestReader_SkipsARemnantWithoutTheLock(t *testing.T) {
	f := &flight{readers: map[*reader]bool{}}
	f.cond = sync.NewCond(&f.mu)
	r, _ := f.attach(t.Context())
	defer r.Close()
	looks := 0
	r.at, f.state = 7, kept
	r.left = &remnant{src: io.NopCloser(&lookingReader{strings.NewReader("3456789"), func() {
		looks++
		if !f.mu.TryLock() {
			t.Error("the flight is locked while the remnant is read")
			return
		}
		f.mu.Unlock()
	}}), at: 3}
	if err := r.orAgain(errors.New("the upload is gone")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.src); err != nil || !bytes.Equal(got, []byte("789")) || looks == 0 {
		t.Errorf("%q, %v after %d reads, want 789", got, err, looks)
	}
}

// A remnant does not have what comes before it.
func TestReader_BeforeItsRemnant(t *testing.T) {
	f := &flight{readers: map[*reader]bool{}}
	f.cond = sync.NewCond(&f.mu)
	r, _ := f.attach(t.Context())
	defer r.Close()
	r.at, f.state = 2, kept
	r.left = &remnant{src: io.NopCloser(strings.NewReader("3456789")), at: 3}
	gone := errors.New("the upload is gone")
	if err := r.orAgain(gone); !errors.Is(err, gone) || r.src != nil {
		t.Errorf("%v, and reads from %v; want the error", err, r.src)
	}
}
