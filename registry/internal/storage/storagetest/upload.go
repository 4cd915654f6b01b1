package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"slipway/registry/internal/storage"
)

const (
	uploadKey = "/up/1/data"
	blobKey   = "/blobs/1/data"
)

func create(t *testing.T, s storage.Store, key string) storage.Upload {
	t.Helper()
	u, err := s.CreateUpload(t.Context(), key, storage.UploadHint{})
	if err != nil {
		t.Fatalf("CreateUpload(%s): %v", key, err)
	}
	return u
}

func resume(t *testing.T, s storage.Store, key string) storage.Upload {
	t.Helper()
	u, err := s.ResumeUpload(t.Context(), key)
	if err != nil {
		t.Fatalf("ResumeUpload(%s): %v", key, err)
	}
	return u
}

func suspend(t *testing.T, u storage.Upload, state string) {
	t.Helper()
	if err := u.Suspend(t.Context(), []byte(state)); err != nil {
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
	p.both(func(i Instance) {
		_, err := i.Store.ResumeUpload(t.Context(), key)
		wantError(t, "ResumeUpload("+key+")", err, storage.ErrNotExist)
		_, err = i.Store.Stat(t.Context(), key)
		wantError(t, "Stat("+key+")", err, storage.ErrNotExist)
	})
}

func testUpload(t *testing.T, p pair) {
	u := create(t, p.a.Store, uploadKey)
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
	if info, err := p.b.Store.Stat(t.Context(), uploadKey); info.Size > 12 || err != nil && !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat says %d bytes, %v; want no more than 12", info.Size, err)
	}
	p.wantAbsent(t, blobKey)
	apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "hello world!")
	p.wantGone(t, uploadKey)
}

// What was written before Suspend is there for everybody, byte for byte.
func testUploadSuspended(t *testing.T, p pair) {
	suspend(t, create(t, p.a.Store, uploadKey), "")
	want := ""
	for i, part := range []string{"one ", "", "two ", pattern(100_000), " three", pattern(6 << 20), "end"} {
		u := resume(t, p.nth(i+1).Store, uploadKey)
		wantSize(t, u, int64(len(want)))
		write(t, u, part)
		want += part
		suspend(t, u, "")
		p.both(func(in Instance) {
			if info := stat(t, in.Store, uploadKey); info.Size != int64(len(want)) {
				t.Errorf("Stat says %d bytes, want %d", info.Size, len(want))
			}
		})
	}
	u := resume(t, p.b.Store, uploadKey)
	wantRead(t, u, 0, want)
	wantRead(t, u, 100_000, want[100_000:])
	apply(t, p.b.Store, storage.Stage{{Key: blobKey, Upload: u}})
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
	u := create(t, p.a.Store, uploadKey)
	wantState(u, "", false)
	write(t, u, "abc")
	suspend(t, u, "hash of abc")
	u = resume(t, p.a.Store, uploadKey)
	wantState(u, "hash of abc", false)
	suspend(t, u, "hash of abc")
	u = resume(t, p.b.Store, uploadKey)
	wantState(u, "hash of abc", true)
	write(t, u, "d")
	wantState(u, "", false)
	suspend(t, u, large)
	u = resume(t, p.a.Store, uploadKey)
	wantState(u, large, true)
	suspend(t, u, "")
	u = resume(t, p.a.Store, uploadKey)
	wantState(u, "", false)
	suspend(t, u, "hash of abcd")
	u = resume(t, p.a.Store, uploadKey)
	write(t, u, "e")
	v := resume(t, p.b.Store, uploadKey) // u's holder never said a word
	if n, state := v.Progress(); n != 4 && state != nil {
		t.Errorf("of %d bytes the state is %q, which was of 4", n, state)
	}
	suspend(t, v, "")
}

func testUploadReplaces(t *testing.T, p pair) {
	put(t, p.a.Store, blobKey, "damag")
	u := create(t, p.a.Store, uploadKey)
	write(t, u, "whole")
	p.wantContent(t, blobKey, "damag")
	apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, "whole")
}

// testUploadOfManySizes crosses the sizes from which on stores work in parts.
func testUploadOfManySizes(t *testing.T, p pair) {
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 5 << 20, 5<<20 + 1, 26 << 20} {
		want := pattern(size)
		u := create(t, p.a.Store, uploadKey)
		for rest := want; rest != ""; {
			n := min(len(rest), 3<<20)
			write(t, u, rest[:n])
			rest = rest[n:]
		}
		apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
		wantContent(t, p.b.Store, blobKey, want)
	}
}

// What is known in advance changes nothing that anybody sees.
func testUploadHint(t *testing.T, p pair) {
	put(t, p.a.Store, blobKey, "before")
	for _, end := range []string{"cancel", "suspend", "elsewhere", "apply"} {
		u, err := p.a.Store.CreateUpload(t.Context(), uploadKey, storage.UploadHint{Final: blobKey, Size: 5})
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
			if err := resume(t, p.b.Store, uploadKey).Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		case "elsewhere":
			apply(t, p.a.Store, storage.Stage{{Key: "/blobs/2/data", Upload: u}})
			p.wantContent(t, "/blobs/2/data", "whole")
		case "apply":
			apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
			p.wantContent(t, blobKey, "whole")
			return
		}
		p.wantContent(t, blobKey, "before")
	}
}

func testUploadCancelled(t *testing.T, p pair) {
	u := create(t, p.a.Store, uploadKey)
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
	u = create(t, p.b.Store, uploadKey)
	wantSize(t, u, 0)
	suspend(t, u, "")
	if err := resume(t, p.a.Store, uploadKey).Cancel(t.Context()); err != nil {
		t.Errorf("Cancel of a resumed upload: %v", err)
	}
	p.wantGone(t, uploadKey)
}

// An upload that has ended does nothing more, and says so where somebody would
// miss it.
func testUploadEnded(t *testing.T, p pair) {
	u := create(t, p.a.Store, uploadKey)
	write(t, u, "x")
	suspend(t, u, "state")
	_, err := u.Write([]byte("y"))
	wantError(t, "Write after Suspend", err, storage.ErrUploadDone)
	err = p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
	wantError(t, "Apply after Suspend", err, storage.ErrUploadDone)
	p.wantAbsent(t, blobKey)
	if err := errors.Join(u.Suspend(t.Context(), nil), u.Cancel(t.Context())); err != nil {
		t.Errorf("Suspend and Cancel after Suspend: %v", err)
	}
	u = resume(t, p.a.Store, uploadKey)
	if n, state := u.Progress(); n != 1 || string(state) != "state" {
		t.Errorf("left with %d bytes and the state %q, want 1 and its own", n, state)
	}
	apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
	_, err = u.Write([]byte("y"))
	wantError(t, "Write after Apply", err, storage.ErrUploadDone)
	if err := errors.Join(u.Suspend(t.Context(), nil), u.Cancel(t.Context())); err != nil {
		t.Errorf("Suspend and Cancel after Apply: %v", err)
	}
	p.wantContent(t, blobKey, "x")
}

func testUploadMissing(t *testing.T, p pair) {
	put(t, p.a.Store, "/up/2/startedat", "x")
	for _, key := range []string{uploadKey, "/up/2/data", "/up/2", "/up/2/startedat/data"} {
		p.wantGone(t, key)
	}
}

func testUploadTwiceCreated(t *testing.T, p pair) {
	u := create(t, p.a.Store, uploadKey)
	write(t, u, "x")
	_, err := p.a.Store.CreateUpload(t.Context(), uploadKey, storage.UploadHint{})
	wantError(t, "CreateUpload where there is one", err, storage.ErrConflict)
	second, err := p.b.Store.CreateUpload(t.Context(), uploadKey, storage.UploadHint{})
	if err != nil {
		wantError(t, "CreateUpload where another process has one", err, storage.ErrConflict)
	}
	write(t, u, "y")
	wantRead(t, u, 0, "xy")
	suspend(t, u, "")
	if err == nil { // it hears of the other late
		write(t, second, "z")
		wantError(t, "Suspend of an upload that another process has", second.Suspend(t.Context(), nil), storage.ErrUploadTaken)
	}
	p.both(func(i Instance) {
		_, err := i.Store.CreateUpload(t.Context(), uploadKey, storage.UploadHint{})
		wantError(t, "CreateUpload where there is one", err, storage.ErrConflict)
	})
	u = resume(t, p.b.Store, uploadKey)
	wantRead(t, u, 0, "xy")
	put(t, p.a.Store, "/f", "x")
	_, err = p.b.Store.CreateUpload(t.Context(), "/f", storage.UploadHint{})
	wantError(t, "CreateUpload over an object", err, storage.ErrConflict)
	p.wantContent(t, "/f", "x")
}

// untilTaken writes until it fails, which it may do late: a store may collect
// some MiB before it looks.
func untilTaken(t *testing.T, u storage.Upload, part string) {
	t.Helper()
	for n := 0; n < 32<<20; n += len(part) {
		if _, err := io.WriteString(u, part); err != nil {
			wantError(t, "Write", err, storage.ErrUploadTaken)
			return
		}
	}
	t.Error("32 MiB were written to an upload that was taken over")
}

func testUploadTaken(t *testing.T, p pair) {
	for i, end := range []string{"Write", "Suspend", "Apply", "Cancel"} {
		// A deletion of the last one's leftovers may come late.
		key := fmt.Sprintf("/up/%d/data", i)
		first := create(t, p.a.Store, key)
		write(t, first, "one ")
		suspend(t, first, "")
		first = resume(t, p.a.Store, key)
		write(t, first, "two ")
		second := resume(t, p.b.Store, key)
		got := size(second)
		if got < 4 || got > 8 {
			t.Fatalf("the second goes on behind byte %d, want one of 4 to 8", got)
		}
		wantRead(t, second, 0, "one two "[:got])
		switch end {
		case "Write":
			untilTaken(t, first, strings.Repeat("late", 256<<10))
		case "Suspend":
			wantError(t, "Suspend", first.Suspend(t.Context(), []byte("late")), storage.ErrUploadTaken)
		case "Apply":
			err := p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: first}})
			wantError(t, "Apply", err, storage.ErrUploadTaken)
			p.wantAbsent(t, blobKey)
		case "Cancel":
			wantError(t, "Cancel", first.Cancel(t.Context()), storage.ErrUploadTaken)
		}
		write(t, second, "three")
		suspend(t, second, "")
		second = resume(t, p.a.Store, key)
		write(t, second, "!")
		apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: second}})
		p.wantContent(t, blobKey, "one two "[:got]+"three!")
		remove(t, p.a.Store, blobKey)
	}
}

// No byte of the first writer comes after the second has seen the size.
func testUploadTakenWhileWriting(t *testing.T, p pair) {
	suspend(t, create(t, p.a.Store, uploadKey), "")
	first := resume(t, p.a.Store, uploadKey)
	begun := make(chan struct{})
	part := strings.Repeat("aaaa", 16<<10)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; i < 1<<30/len(part); i++ {
			if _, err := io.WriteString(first, part); err != nil {
				wantError(t, "Write", err, storage.ErrUploadTaken)
				return
			}
			if i == 10 {
				close(begun)
			}
		}
		t.Error("1 GiB was written, and nobody took the upload over")
	})
	<-begun
	second := resume(t, p.b.Store, uploadKey)
	n := size(second)
	write(t, second, "b")
	writer.Wait()
	if n%4 != 0 {
		t.Errorf("the second saw %d bytes, the middle of a write", n)
	}
	wantRead(t, second, n, "b")
	suspend(t, second, "")
	third := resume(t, p.a.Store, uploadKey)
	wantSize(t, third, n+1)
	wantRead(t, third, 0, strings.Repeat("a", int(n))+"b")
}

func testUploadResumedWhileApplied(t *testing.T, p pair) {
	want := pattern(2 << 20)
	for i := range 10 {
		u := create(t, p.a.Store, uploadKey)
		write(t, u, want)
		var other sync.WaitGroup
		other.Go(func() {
			u, err := p.nth(i).Store.ResumeUpload(t.Context(), uploadKey)
			if err == nil {
				_, err = io.WriteString(u, "late")
				err = errors.Join(err, u.Suspend(t.Context(), nil))
			}
			if err != nil && !lost(err) {
				t.Errorf("ResumeUpload, Write and Suspend: %v", err)
			}
		})
		err := p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
		other.Wait()
		if err == nil {
			p.wantContent(t, blobKey, want)
		} else {
			wantError(t, "Apply", err, storage.ErrUploadTaken)
			p.wantAbsent(t, blobKey)
		}
		apply(t, p.a.Store, storage.Stage{{Key: blobKey, Delete: true}, {Key: uploadKey, Delete: true}})
		p.wantGone(t, uploadKey)
	}
}

// A deletion of its key ends an upload, also under its holder.
func testUploadDeleted(t *testing.T, p pair) {
	suspend(t, create(t, p.a.Store, uploadKey), "")
	u := resume(t, p.a.Store, uploadKey)
	write(t, u, "x")
	apply(t, p.b.Store, storage.Stage{{Key: uploadKey, Delete: true, Ephemeral: true}})
	p.wantGone(t, uploadKey)
	err := p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u}})
	if !lost(err) {
		t.Errorf("Apply of a deleted upload: %v, want ErrNotExist or ErrUploadTaken", err)
	}
	p.wantGone(t, uploadKey)
	p.wantAbsent(t, blobKey)
}

func testUploadConflict(t *testing.T, p pair) {
	put(t, p.a.Store, blobKey, "there")
	u := create(t, p.a.Store, uploadKey)
	write(t, u, "x")
	err := p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: blobKey, Upload: u, If: storage.IfAbsent()}})
	wantError(t, "Apply", err, storage.ErrConflict)
	p.wantContent(t, blobKey, "there")
	remove(t, p.b.Store, blobKey)
	u = create(t, p.a.Store, "/up/2/data")
	write(t, u, "y")
	apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u, If: storage.IfAbsent()}})
	p.wantContent(t, blobKey, "y")
}

// An Apply that was refused before it began leaves the upload to the next request.
func testUploadSurvivesFailedApply(t *testing.T, p pair) {
	u := create(t, p.a.Store, uploadKey)
	write(t, u, "x")
	opened, err := u.Reader(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	err = p.a.Store.Apply(t.Context(), nil, storage.Stage{{Key: "/blobs/../data", Upload: u}})
	wantError(t, "Apply", err, storage.ErrInvalidKey)
	if got, err := io.ReadAll(opened); err != nil || string(got) != "x" {
		t.Errorf("what was opened before a failed Apply reads %q, %v", got, err)
	}
	_, err = u.Write([]byte("y"))
	wantError(t, "Write after a failed Apply", err, storage.ErrUploadDone)
	u = resume(t, p.a.Store, uploadKey)
	r, err := u.Reader(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := io.ReadAll(r)
	r.Close()
	if err != nil || !bytes.HasPrefix([]byte("x"), kept) || size(u) != int64(len(kept)) {
		t.Fatalf("kept %q, %v; want the bytes that were written", kept, err)
	}
	write(t, u, "y")
	apply(t, p.a.Store, storage.Stage{{Key: blobKey, Upload: u}})
	p.wantContent(t, blobKey, string(kept)+"y")
}
