package lastpull

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

func digest(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func TestRecordsOutliveTheProcess(t *testing.T) {
	m := memory.New()
	r := Start(NewFile(m), zap.NewNop())
	before := time.Now().Truncate(time.Second)
	for range 1000 {
		r.Record("a/b", digest("x"))
	}
	r.Record("a/b", digest("y"))
	r.Close()
	times, err := NewFile(m).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"x", "y"} {
		if at, ok := times.Of("a/b", digest(s)); !ok || at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s was pulled at %v, %v", s, at, ok)
		}
	}
	if at, ok := times.Of("a", digest("x")); ok {
		t.Errorf("another repository was pulled at %v", at)
	}
}

// A pull is known before it is written, and while it is: else an image that is being pulled could leave a cache, or fall to retention.
func TestRead_BeforeItIsWritten(t *testing.T) {
	var file *File
	wrote := false
	known := func(when string) {
		t.Helper()
		times, err := file.Read(t.Context())
		if _, ok := times.Of("a/b", digest("x")); !ok || err != nil {
			t.Errorf("%s: the pull is unknown, %v", when, err)
		}
	}
	file = NewFile(&hookedtest.Store{Store: memory.New(), OnApply: func([]storage.Stage) error {
		wrote = true
		known("while it is written")
		return nil
	}})
	r := Start(file, zap.NewNop())
	r.Record("a/b", digest("x"))
	known("before it is written")
	r.Close()
	if known("afterwards"); !wrote {
		t.Error("nothing was written")
	}
}

// Several processes write at once, and nothing is lost.
func TestWritersAtOnce(t *testing.T) {
	m := memory.New()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				var news Times
				news.Set("n", digest(fmt.Sprint(i, j)), time.Unix(int64(100*i+j), 0))
				news.Set("n", digest("same"), time.Unix(int64(100*i+j), 0)) // the latest stands
				if err := NewFile(m).Add(t.Context(), news); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	times, err := NewFile(m).Read(t.Context())
	if at, ok := times.Of("n", digest("same")); err != nil || !ok || at.Unix() != 304 {
		t.Errorf("%v, %v, %v", at, ok, err)
	}
	for i := range 4 {
		for j := range 5 {
			if at, ok := times.Of("n", digest(fmt.Sprint(i, j))); !ok || at.Unix() != int64(100*i+j) {
				t.Errorf("%d %d: %v, %v", i, j, at, ok)
			}
		}
	}
}

// A file that is none of ours is overwritten.
func TestForeignFileIsReplaced(t *testing.T) {
	m := memory.New()
	for _, content := range []string{"x", strings.Repeat("x", int(maxFile)+1)} {
		if err := m.Apply(t.Context(), nil, storage.Stage{{Key: layout.Pulls, Content: []byte(content)}}); err != nil {
			t.Fatal(err)
		}
		var news Times
		news.Set("n", digest("a"), time.Unix(100, 0))
		if err := NewFile(m).Add(t.Context(), news); err != nil {
			t.Fatal(err)
		}
		times, err := NewFile(m).Read(t.Context())
		if _, ok := times.Of("n", digest("a")); err != nil || !ok {
			t.Errorf("%v, %v", ok, err)
		}
	}
}

func TestFileIsBounded(t *testing.T) {
	var many Times
	for i := range maxTimes + 10 {
		many.Set("n", digest(fmt.Sprint(i)), time.Unix(int64(1000+i), 0))
	}
	content := encode(many)
	if int64(len(content)) != maxFile {
		t.Fatalf("%d bytes, want %d", len(content), maxFile)
	}
	back := decode(content)
	if _, ok := back.Of("n", digest("9")); ok {
		t.Error("the oldest was kept")
	}
	if at, ok := back.Of("n", digest("10")); !ok || at.Unix() != 1010 {
		t.Errorf("got %v, %v", at, ok)
	}
}

func TestForeignFile(t *testing.T) {
	for _, content := range []string{"", "x", magic, magic + "short", "another file of someone, quite long enough"} {
		if got := decode([]byte(content)); len(got.seconds) != 0 {
			t.Errorf("%q: %v", content, got)
		}
	}
}
