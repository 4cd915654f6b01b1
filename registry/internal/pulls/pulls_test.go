package pulls

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

func digest(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func TestBookOutlivesTheProcess(t *testing.T) {
	d := memory.New()
	b := Open(NewFile(d), zap.NewNop())
	before := time.Now().Truncate(time.Second)
	for range 1000 {
		b.Note("a/b", digest("x"))
	}
	b.Note("a/b", digest("y"))
	b.Close()
	times, err := NewFile(d).Read(t.Context())
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

// Two processes write; what one of them overwrites is there after its next turn.
func TestTwoWriters(t *testing.T) {
	d := memory.New()
	one, two := NewFile(d), NewFile(d)
	var a, b, c Times
	a.Set("n", digest("a"), time.Unix(100, 0))
	b.Set("n", digest("b"), time.Unix(200, 0))
	c.Set("n", digest("a"), time.Unix(50, 0)) // older than known
	for _, step := range []func() error{
		func() error { return one.Add(t.Context(), a) },
		func() error { return d.WriteScratch(t.Context(), layout.Pulls, []byte(magic)) }, // who did not see it
		func() error { return two.Add(t.Context(), b) },
		func() error { return one.Add(t.Context(), c) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	times, _ := one.Read(t.Context())
	for name, want := range map[string]int64{"a": 100, "b": 200} {
		if at, ok := times.Of("n", digest(name)); !ok || at.Unix() != want {
			t.Errorf("%s: %v, %v", name, at, ok)
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

func BenchmarkNote(b *testing.B) {
	book := Open(NewFile(memory.New()), zap.NewNop())
	defer book.Close()
	d := digest("x")
	for b.Loop() {
		book.Note("org/app", d)
	}
}
