package storagetest

import (
	"io"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

func testCheck(t *testing.T, p pair) {
	p.both(func(s storage.Store) {
		for _, write := range []bool{false, true} {
			if err := storage.Check(t.Context(), s, "/docker", write); err != nil {
				t.Errorf("Check(%v): %v", write, err)
			}
		}
	})
}

func testInvalidChanges(t *testing.T, p pair) {
	put(t, p.a, "/f", "x")
	for _, c := range []storage.Change{{}, {If: storage.IfAbsent()}, {Ephemeral: true}, {Content: []byte{}, Delete: true}, {Renew: true, Delete: true}} {
		c.Key = "/f"
		err := p.a.Apply(t.Context(), nil, storage.Stage{{Key: "/g", Content: []byte("x")}, c})
		wantError(t, "Apply", err, storage.ErrInvalidChange)
	}
	p.wantContent(t, "/f", "x")
	p.wantAbsent(t, "/g")
	put(t, p.a, "/f", "")
	p.wantContent(t, "/f", "")
}

func testInvalidKeys(t *testing.T, p pair) {
	s := p.a
	for _, key := range []string{"", "/", "a", "/a/", "/a//b", "/../x", "/a/../b", "/.hidden", "/a b", "/a\x00", "/" + strings.Repeat("a", 4000)} {
		if key != "/a/" { // there Stat describes a prefix
			_, err := s.Stat(t.Context(), key)
			wantError(t, "Stat", err, storage.ErrInvalidKey)
		}
		_, err := s.Open(t.Context(), key, 0, -1)
		wantError(t, "Open", err, storage.ErrInvalidKey)
		for _, c := range []storage.Change{{Content: []byte("x")}, {Delete: true}, {Renew: true}} {
			c.Key = key
			wantError(t, "Apply", s.Apply(t.Context(), nil, storage.Stage{c}), storage.ErrInvalidKey)
		}
		_, err = s.OpenUpload(t.Context(), key, storage.UploadOptions{Create: true})
		wantError(t, "OpenUpload to create", err, storage.ErrInvalidKey)
		_, err = s.OpenUpload(t.Context(), key, storage.UploadOptions{})
		wantError(t, "OpenUpload", err, storage.ErrInvalidKey)
		for _, flat := range []bool{false, true} {
			calls := 0
			for _, err := range s.List(t.Context(), key, storage.ListOptions{Flat: flat}) {
				calls++
				wantError(t, "List", err, storage.ErrInvalidKey)
			}
			if calls != 1 {
				t.Errorf("List(%q) yields %d times, want one error", key, calls)
			}
		}
	}
}

func testStat(t *testing.T, p pair) {
	put(t, p.a, "/a/b/c", "four")
	p.both(func(s storage.Store) {
		if info := stat(t, s, "/a/b/c"); info.Key != "/a/b/c" || info.Prefix || info.Size != 4 {
			t.Errorf("Stat = %+v, want an object of 4 bytes", info)
		}
	})
	for _, key := range []string{"/a", "/a/b", "/x", "/a/x", "/a/b/c/d", "/a/b/" + strings.Repeat("x", 200)} {
		p.wantAbsent(t, key)
	}
}

// Modified is the time of the change, perhaps in whole seconds.
func testModified(t *testing.T, p pair) {
	const skew = 5 * time.Second
	before := time.Now().Add(-skew)
	put(t, p.a, "/f", "x")
	p.both(func(s storage.Store) {
		if m := stat(t, s, "/f").Modified; m.Before(before) || m.After(time.Now().Add(skew)) {
			t.Errorf("modified at %v, want now (%v)", m, time.Now())
		}
	})
}

func testRead(t *testing.T, p pair) {
	for _, size := range []int{0, 1, 71, 1023, 1024, 1025, 4096, 100_000, 4 << 20} {
		want := pattern(size)
		put(t, p.a, "/a/f", want)
		for _, limit := range []int{size, size + 1, size + 10_000} {
			got, info, err := storage.Read(t.Context(), p.b, "/a/f", int64(limit))
			if err != nil || string(got) != want || info.Size != int64(size) {
				t.Errorf("Read of %d bytes, at most %d: %d bytes, %+v, %v", size, limit, len(got), info, err)
			}
		}
		if size > 0 {
			_, _, err := storage.Read(t.Context(), p.b, "/a/f", int64(size-1))
			wantError(t, "Read of one byte more than asked for", err, storage.ErrTooLarge)
		}
	}
	got, _, _ := storage.Read(t.Context(), p.a, "/a/f", 4<<20)
	got[0] ^= 0xff
	if again, _, _ := storage.Read(t.Context(), p.a, "/a/f", 4<<20); again[0] == got[0] {
		t.Error("Read returns the store's own memory")
	}
}

func testOpenRange(t *testing.T, p pair) {
	put(t, p.a, "/f", "0123456789")
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, "0123456789"},
		{0, 10, "0123456789"},
		{0, 100, "0123456789"},
		{0, 0, ""},
		{0, 3, "012"},
		{4, -1, "456789"},
		{4, 3, "456"},
		{9, 1, "9"},
		{9, 5, "9"},
		{10, -1, ""},
		{10, 5, ""},
		{11, -1, ""},
		{1000, 7, ""},
	} {
		o, err := p.b.Open(t.Context(), "/f", tt.offset, tt.length)
		if err != nil {
			t.Errorf("Open(%d, %d): %v", tt.offset, tt.length, err)
			continue
		}
		got, err := io.ReadAll(o)
		if string(got) != tt.want || err != nil || o.Size != 10 {
			t.Errorf("Open(%d, %d) reads %q, %v, size %d; want %q of 10", tt.offset, tt.length, got, err, o.Size, tt.want)
		}
		if err := o.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func testOpenObjectOutlivesItsKey(t *testing.T, p pair) {
	for _, change := range []func(){
		func() { put(t, p.b, "/f", "second one") },
		func() { remove(t, p.b, "/f") },
	} {
		put(t, p.a, "/f", "first")
		o, err := p.a.Open(t.Context(), "/f", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		change()
		if got, err := io.ReadAll(o); err != nil || string(got) != "first" {
			t.Errorf("read %q, %v; want the bytes of when it was opened", got, err)
		}
		o.Close()
	}
}
