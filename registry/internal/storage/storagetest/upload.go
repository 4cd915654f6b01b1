package storagetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/storage"
)

const (
	uploadKey = "/up/1/data"
	blobKey   = "/blobs/1/data"
)

func create(t *testing.T, s storage.Store, key string) storage.Upload {
	t.Helper()
	u, err := s.OpenUpload(t.Context(), key, storage.UploadOptions{Create: true})
	if err != nil {
		t.Fatalf("OpenUpload(%s) to create: %v", key, err)
	}
	return u
}

func resume(t *testing.T, s storage.Store, key string) storage.Upload {
	t.Helper()
	u, err := s.OpenUpload(t.Context(), key, storage.UploadOptions{})
	if err != nil {
		t.Fatalf("OpenUpload(%s): %v", key, err)
	}
	return u
}

func suspend(t *testing.T, u storage.Upload, state string) {
	t.Helper()
	if err := u.Suspend(t.Context(), size(u), []byte(state)); err != nil {
		t.Fatalf("Suspend: %v", err)
	}
}

func write(t *testing.T, u storage.Upload, content string) {
	t.Helper()
	if n, err := io.WriteString(u, content); err != nil || n != len(content) {
		t.Fatalf("Write = %d, %v; want %d", n, err, len(content))
	}
}

func size(u storage.Upload) int64 {
	n, _ := u.Progress()
	return n
}

func wantSize(t *testing.T, u storage.Upload, want int64) {
	t.Helper()
	if n := size(u); n != want {
		t.Errorf("the upload has %d bytes, want %d", n, want)
	}
}

func wantRead(t *testing.T, u storage.Upload, offset int64, want string) {
	t.Helper()
	r, err := u.Reader(t.Context(), offset)
	if err != nil {
		t.Errorf("Reader(%d): %v", offset, err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("Reader(%d) reads %.40q (%d bytes), %v; want %.40q (%d bytes)", offset, got, len(got), err, want, len(want))
	}
}

// wantGone checks that there is no upload.
func (p pair) wantGone(t *testing.T, key string) {
	t.Helper()
	p.both(func(s storage.Store) {
		_, err := s.OpenUpload(t.Context(), key, storage.UploadOptions{})
		wantError(t, "OpenUpload("+key+")", err, storage.ErrNotExist)
		_, err = s.Stat(t.Context(), key)
		wantError(t, "Stat("+key+")", err, storage.ErrNotExist)
	})
}

func testUpload(t *testing.T, p pair) {
	u := create(t, p.a, uploadKey)
	wantSize(t, u, 0)
	wantRead(t, u, 0, "")
	write(t, u, "hello ")
	write(t, u, "")
	write(t, u, "world")
	wantSize(t, u, 11)
	wantRead(t, u, 0, "hello world")
	wantRead(t, u, 6, "world")
	wantRead(t, u, 11, "")
	if _, err := u.Reader(t.Context(), 12); err == nil {
		t.Error("Reader behind the end is no error")
	}
	write(t, u, "!")
	wantSize(t, u, 12)
	if info, err := p.b.Stat(t.Context(), uploadKey); info.Size > 12 || err != nil && !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat says %d bytes, %v; want no more than 12", info.Size, err)
	}
	p.wantAbsent(t, blobKey)
	apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "hello world!")
	p.wantGone(t, uploadKey)
}

// Every process sees the bytes that were written before Suspend.
func testUploadSuspended(t *testing.T, p pair) {
	suspend(t, create(t, p.a, uploadKey), "")
	want := ""
	for i, part := range []string{"one ", "", "two ", pattern(100_000), " three", pattern(6 << 20), "end"} {
		u := resume(t, p.nth(i+1), uploadKey)
		wantSize(t, u, int64(len(want)))
		write(t, u, part)
		want += part
		suspend(t, u, "")
		p.both(func(s storage.Store) {
			if info := stat(t, s, uploadKey); info.Size != int64(len(want)) {
				t.Errorf("Stat says %d bytes, want %d", info.Size, len(want))
			}
		})
	}
	u := resume(t, p.b, uploadKey)
	wantRead(t, u, 0, want)
	wantRead(t, u, 100_000, want[100_000:])
	apply(t, p.b, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, want)
}

// The state is that of exactly the bytes that are there, or nil. A store may keep it
// in the process that it was given to.
func testUploadState(t *testing.T, p pair) {
	wantState := func(u storage.Upload, want string, elsewhere bool) {
		t.Helper()
		if _, state := u.Progress(); string(state) != want && (!elsewhere || state != nil) {
			t.Errorf("the state is %.20q (%d bytes), want %.20q", state, len(state), want)
		}
	}
	large := strings.Repeat("s", 4<<10)
	u := create(t, p.a, uploadKey)
	wantState(u, "", false)
	write(t, u, "abc")
	suspend(t, u, "hash of abc")
	u = resume(t, p.a, uploadKey)
	wantState(u, "hash of abc", false)
	suspend(t, u, "hash of abc")
	u = resume(t, p.b, uploadKey)
	wantState(u, "hash of abc", true)
	write(t, u, "d")
	wantState(u, "", false)
	suspend(t, u, large)
	u = resume(t, p.a, uploadKey)
	wantState(u, large, true)
	suspend(t, u, "")
	u = resume(t, p.a, uploadKey)
	wantState(u, "", false)
	suspend(t, u, "hash of abcd")
	u = resume(t, p.a, uploadKey)
	write(t, u, "e")
	suspend(t, u, "")
	u = resume(t, p.b, uploadKey)
	wantState(u, "", false)
	suspend(t, u, "hash of abcde")
	u = resume(t, p.a, uploadKey)
	write(t, u, "f")
	if err := u.Suspend(t.Context(), 5, []byte("hash of abcde")); err != nil {
		t.Fatal(err)
	}
	u = resume(t, p.a, uploadKey)
	wantSize(t, u, 5)
	wantState(u, "hash of abcde", true)
	write(t, u, "g")
	if err := u.Suspend(t.Context(), size(u), make([]byte, 4<<10+1)); err == nil {
		t.Error("Suspend takes a state of more than 4 KiB")
	}
}

func testUploadReplaces(t *testing.T, p pair) {
	put(t, p.a, blobKey, "damag")
	u := create(t, p.a, uploadKey)
	write(t, u, "whole")
	p.wantContent(t, blobKey, "damag")
	apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "whole")
}

// testUploadOfManySizes crosses the sizes from which on stores work in parts.
func testUploadOfManySizes(t *testing.T, p pair) {
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 5 << 20, 5<<20 + 1, 26 << 20} {
		want := pattern(size)
		u := create(t, p.a, uploadKey)
		for rest := want; rest != ""; {
			n := min(len(rest), 3<<20)
			write(t, u, rest[:n])
			rest = rest[n:]
		}
		apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
		wantContent(t, p.b, blobKey, want)
	}
}

// Final and Size change nothing that anybody sees.
func testUploadOptions(t *testing.T, p pair) {
	put(t, p.a, blobKey, "before")
	for _, end := range []string{"cancel", "suspend", "elsewhere", "apply"} {
		u, err := p.a.OpenUpload(t.Context(), uploadKey, storage.UploadOptions{Create: true, Final: blobKey, Size: 5})
		if err != nil {
			t.Fatal(err)
		}
		write(t, u, "whole")
		p.wantContent(t, blobKey, "before")
		switch end {
		case "cancel":
			if err := u.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.wantGone(t, uploadKey)
		case "suspend":
			suspend(t, u, "state")
			p.wantContent(t, blobKey, "before")
			if err := resume(t, p.b, uploadKey).Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		case "elsewhere":
			apply(t, p.a, storage.Stage{{Key: "/blobs/2/data", Upload: u}})
			p.wantContent(t, "/blobs/2/data", "whole")
		case "apply":
			apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
			p.wantContent(t, blobKey, "whole")
			return
		}
		p.wantContent(t, blobKey, "before")
	}
}

func testUploadCancelled(t *testing.T, p pair) {
	u := create(t, p.a, uploadKey)
	write(t, u, "x")
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	p.wantGone(t, uploadKey)
	_, err := u.Write([]byte("x"))
	wantError(t, "Write after Cancel", err, storage.ErrUploadDone)
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel after Cancel: %v", err)
	}
	u = create(t, p.b, uploadKey)
	wantSize(t, u, 0)
	suspend(t, u, "")
	if err := resume(t, p.a, uploadKey).Cancel(t.Context()); err != nil {
		t.Errorf("Cancel of a resumed upload: %v", err)
	}
	p.wantGone(t, uploadKey)
}

// An upload that has ended does nothing more; calls that lose something fail.
func testUploadEnded(t *testing.T, p pair) {
	u := create(t, p.a, uploadKey)
	write(t, u, "x")
	suspend(t, u, "state")
	_, err := u.Write([]byte("y"))
	wantError(t, "Write after Suspend", err, storage.ErrUploadDone)
	err = p.a.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
	wantError(t, "Apply after Suspend", err, storage.ErrUploadDone)
	p.wantAbsent(t, blobKey)
	if err := errors.Join(u.Suspend(t.Context(), 1, nil), u.Cancel(t.Context())); err != nil {
		t.Errorf("Suspend and Cancel after Suspend: %v", err)
	}
	u = resume(t, p.a, uploadKey)
	if n, state := u.Progress(); n != 1 || string(state) != "state" {
		t.Errorf("left with %d bytes and the state %q, want 1 and its own", n, state)
	}
	apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
	_, err = u.Write([]byte("y"))
	wantError(t, "Write after Apply", err, storage.ErrUploadDone)
	if err := errors.Join(u.Suspend(t.Context(), 1, nil), u.Cancel(t.Context())); err != nil {
		t.Errorf("Suspend and Cancel after Apply: %v", err)
	}
	p.wantContent(t, blobKey, "x")
}

func testUploadMissing(t *testing.T, p pair) {
	put(t, p.a, "/up/2/startedat", "x")
	for _, key := range []string{uploadKey, "/up/2/data", "/up/2", "/up/2/startedat/data"} {
		p.wantGone(t, key)
	}
}

func testUploadTwiceCreated(t *testing.T, p pair) {
	u := create(t, p.a, uploadKey)
	write(t, u, "x")
	_, err := p.a.OpenUpload(t.Context(), uploadKey, storage.UploadOptions{Create: true})
	wantError(t, "creation where there is one", err, storage.ErrConflict)
	second, err := p.b.OpenUpload(t.Context(), uploadKey, storage.UploadOptions{Create: true})
	if err != nil {
		wantError(t, "creation where another process has one", err, storage.ErrConflict)
	}
	write(t, u, "y")
	wantRead(t, u, 0, "xy")
	suspend(t, u, "")
	if err == nil { // it learns of the other late
		write(t, second, "z")
		wantError(t, "Suspend of an upload that another process has", second.Suspend(t.Context(), size(second), nil), storage.ErrUploadTaken)
	}
	p.both(func(s storage.Store) {
		_, err := s.OpenUpload(t.Context(), uploadKey, storage.UploadOptions{Create: true})
		wantError(t, "creation where there is one", err, storage.ErrConflict)
	})
	u = resume(t, p.b, uploadKey)
	wantRead(t, u, 0, "xy")
	put(t, p.a, "/f", "x")
	_, err = p.b.OpenUpload(t.Context(), "/f", storage.UploadOptions{Create: true})
	wantError(t, "creation over an object", err, storage.ErrConflict)
	p.wantContent(t, "/f", "x")
}

// Two holders never mix bytes: the second is refused, or one of them fails.
func testUploadHasOneHolder(t *testing.T, p pair) {
	end := map[string]func(s storage.Store, u storage.Upload) error{
		"Suspend": func(_ storage.Store, u storage.Upload) error { return u.Suspend(t.Context(), size(u), nil) },
		"Apply": func(s storage.Store, u storage.Upload) error {
			return s.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
		},
	}
	round := 0
	for name, end := range end {
		for _, first := range []int{0, 1} {
			round++
			key := fmt.Sprintf("/up/%d/data", round) // a late deletion of leftovers must not meet the next
			u := create(t, p.a, key)
			write(t, u, "one ")
			suspend(t, u, "")
			holders := [2]storage.Upload{resume(t, p.a, key)}
			write(t, holders[0], "aaaa")
			var err error
			holders[1], err = p.b.OpenUpload(t.Context(), key, storage.UploadOptions{})
			if errors.Is(err, storage.ErrUploadTaken) {
				suspend(t, holders[0], "")
				u = resume(t, p.b, key)
				wantRead(t, u, 0, "one aaaa")
				if err := u.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("OpenUpload beside another holder: %v", err)
			}
			want := []string{"one aaaa", "one aaaa"[:size(holders[1])] + "bb"}
			var failed [2]error
			_, failed[1] = io.WriteString(holders[1], "bb")
			for i := range holders {
				i = (i + first) % 2
				if failed[i] == nil {
					failed[i] = end(p.nth(i), holders[i])
				}
				if failed[i] != nil && !lost(failed[i]) {
					t.Errorf("%s of holder %d: %v, want ErrUploadTaken", name, i, failed[i])
				}
			}
			if failed[0] == nil && failed[1] == nil {
				t.Errorf("%s of both holders succeeds", name)
			}
			var got []byte
			if name == "Apply" {
				got, _, err = storage.Read(t.Context(), p.a, blobKey, 100)
				remove(t, p.a, blobKey)
			} else {
				var r io.ReadCloser
				u = resume(t, p.b, key)
				if r, err = u.Reader(t.Context(), 0); err == nil {
					got, err = io.ReadAll(r)
					r.Close()
				}
				suspend(t, u, "")
			}
			if err != nil || !slices.Contains(want, string(got)) {
				t.Errorf("%s of two holders leaves %q, %v; want one of %q", name, got, err, want)
			}
		}
	}
}

// A holder that failed can leave what was there before.
func testUploadSuspendedWithLess(t *testing.T, p pair) {
	u := create(t, p.a, uploadKey)
	write(t, u, "kept")
	suspend(t, u, "hash of kept")
	for i, part := range []string{"more", pattern(6 << 20)} {
		u = resume(t, p.nth(i), uploadKey)
		_, state := u.Progress()
		write(t, u, part)
		if err := u.Suspend(t.Context(), 4, state); err != nil {
			t.Fatalf("Suspend: %v", err)
		}
	}
	u = resume(t, p.b, uploadKey)
	wantSize(t, u, 4)
	wantRead(t, u, 0, "kept")
	write(t, u, " on")
	apply(t, p.b, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "kept on")
}

// The date of an object is when it was put in place, not when its upload began.
func testUploadIsDatedWhenPut(t *testing.T, p pair) {
	for i, size := range []int{5, 6 << 20} {
		u := create(t, p.a, fmt.Sprintf("/up/%d/data", i))
		write(t, u, pattern(size))
		put(t, p.b, "/begun", "x")
		age(t, p.b, "/begun")
		clock := stat(t, p.b, "/clock").Modified
		apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
		p.both(func(s storage.Store) {
			if m := stat(t, s, blobKey).Modified; m.Before(clock) {
				t.Errorf("%d bytes are dated %v; the store's clock was at %v before", size, m, clock)
			}
		})
	}
}

// A deletion of its key ends an upload, also under its holder.
func testUploadDeleted(t *testing.T, p pair) {
	suspend(t, create(t, p.a, uploadKey), "")
	u := resume(t, p.a, uploadKey)
	write(t, u, "x")
	apply(t, p.b, storage.Stage{{Key: uploadKey, Delete: true, Ephemeral: true}})
	p.wantGone(t, uploadKey)
	err := p.a.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
	if !lost(err) {
		t.Errorf("Apply of a deleted upload: %v, want ErrNotExist or ErrUploadTaken", err)
	}
	p.wantGone(t, uploadKey)
	p.wantAbsent(t, blobKey)
}

func testUploadConflict(t *testing.T, p pair) {
	put(t, p.a, blobKey, "there")
	u := create(t, p.a, uploadKey)
	write(t, u, "x")
	err := p.a.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u, If: storage.IfAbsent()}})
	wantError(t, "Apply", err, storage.ErrConflict)
	p.wantContent(t, blobKey, "there")
	remove(t, p.b, blobKey)
	u = create(t, p.a, "/up/2/data")
	write(t, u, "y")
	apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u, If: storage.IfAbsent()}})
	p.wantContent(t, blobKey, "y")
}

// After a failed Apply the caller still holds the upload.
func testUploadSurvivesFailedApply(t *testing.T, p pair) {
	put(t, p.a, "/there", "x")
	u := create(t, p.a, uploadKey)
	write(t, u, "x")
	suspend(t, u, "state")
	u = resume(t, p.a, uploadKey)
	write(t, u, "y")
	err := p.a.Apply(t.Context(), nil, storage.Stage{{Key: "/blobs/../data", Upload: u}})
	wantError(t, "Apply", err, storage.ErrInvalidKey)
	wantRead(t, u, 0, "xy")
	err = p.a.Apply(t.Context(), nil, storage.Stage{{Key: "/there", Upload: u, If: storage.IfAbsent()}})
	wantError(t, "Apply", err, storage.ErrConflict)
	p.wantContent(t, "/there", "x")
	if err := u.Suspend(t.Context(), 1, []byte("state")); err != nil {
		t.Fatalf("Suspend after a failed Apply: %v", err)
	}
	u = resume(t, p.a, uploadKey)
	if n, state := u.Progress(); n != 1 || string(state) != "state" {
		t.Errorf("left with %d bytes and the state %q, want 1 and its own", n, state)
	}
	write(t, u, "z")
	apply(t, p.a, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "xz")
}
