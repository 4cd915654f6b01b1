package object

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"
	"time"
)

// What a file in the spool holds is certain until the machine goes down: bytes that were never
// flushed may be others then.
func TestStateOfSpooledBytesIsOfOneBoot(t *testing.T) {
	l := localShelf{&Store{Client: &Client{}, o: Options{Spool: t.TempDir()}}}
	const key = "/up/data"
	if err := os.WriteFile(l.file(key, ".data"), []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := checkpoint{Holder: "H", Local: 5, State: []byte("state"), Hashed: 5}
	if _, err := l.save(t.Context(), key, saved, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := "state"
	if boot() == "" {
		want = "" // a system that does not say when it was started may have lost the bytes at any time
	}
	c, _, _, err := l.load(t.Context(), key)
	if err != nil || string(c.state()) != want {
		t.Fatalf("within one boot the state is %q, %v; want %q", c.state(), err, want)
	}
	content, err := os.ReadFile(l.file(key, ".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.file(key, ".json"), bytes.Replace(content, []byte(`"`+boot()+`"`), []byte(`"before"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, _, err = l.load(t.Context(), key)
	if err != nil || c.state() != nil || c.size() != 5 {
		t.Errorf("after another boot: state %q of %d bytes, %v; want none of 5", c.state(), c.size(), err)
	}
}

// unfinished is a bucket in which others have begun uploads, too.
type unfinished struct {
	Bucket
	Multipart
	below *string
}

func (u unfinished) Unfinished(_ context.Context, prefix string, _ time.Time) ([]UnfinishedObject, error) {
	*u.below = prefix
	return nil, nil
}

func TestCleanLeavesWhatOthersHaveBegun(t *testing.T) {
	for root, want := range map[string]string{"": "docker/registry/v2/", "a/b": "a/b/docker/registry/v2/"} {
		var below string
		s := New(NewClient(unfinished{below: &below}, root, Limits{}, Timing{}), Options{Spool: t.TempDir(), Tree: "/docker/registry/v2"})
		if err := s.Clean(t.Context()); err != nil || below != want {
			t.Errorf("with root %q it looks below %q, %v; want %q", root, below, err, want)
		}
	}
}

func TestSpoolHoldsNoMoreThanOnePut(t *testing.T) {
	for asked, want := range map[int64]int64{0: 128 << 20, 1 << 30: 1 << 30, 100 << 30: 5<<30 - 64<<20} {
		s := New(NewClient(nil, "", Limits{MaxPut: 5 << 30}, Timing{}), Options{SpoolMax: asked})
		if s.o.SpoolMax != want {
			t.Errorf("asked for %d it spools %d bytes, want %d", asked, s.o.SpoolMax, want)
		}
	}
}

// A checkpoint that was put and taken often is kept like any other, and the oldest goes first.
func TestLeft_KeepsTheLatest(t *testing.T) {
	var l left
	defer l.close()
	for range 2 * maxLeft {
		l.put("long", saved{version: "old"})
		if _, ok := l.take("long"); !ok {
			t.Fatal("what was put a moment ago is forgotten")
		}
	}
	l.put("long", saved{version: "new"})
	for i := range maxLeft - 1 {
		l.put(strconv.Itoa(i), saved{})
	}
	if s, ok := l.take("long"); !ok || s.version != "new" {
		t.Errorf("%+v, %v though %d are remembered", s, ok, maxLeft)
	}
	for i := range 2 {
		l.put("last"+strconv.Itoa(i), saved{})
	}
	if _, ok := l.take("0"); ok || len(l.saved) != maxLeft || len(l.order) != maxLeft {
		t.Errorf("%d remembered in an order of %d, want %d without the oldest", len(l.saved), len(l.order), maxLeft)
	}
}
