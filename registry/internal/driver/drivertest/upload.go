package drivertest

import (
	"errors"
	"io"
	"sync"
	"testing"

	"slipway/registry/internal/driver"
)

func testUpload(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	if u.Size() != 0 {
		t.Errorf("a new upload has %d bytes", u.Size())
	}
	write(t, u, "hello ")
	write(t, u, "")
	write(t, u, "world")
	if n, err := d.UploadSize(t.Context(), "/up/1/data"); n != 11 || err != nil {
		t.Errorf("UploadSize = %d, %v; want 11", n, err)
	}
	wantRead(t, u, 0, "hello world")
	wantRead(t, u, 6, "world")
	wantRead(t, u, 11, "")
	if _, err := u.Reader(t.Context(), 12); err == nil {
		t.Error("Reader behind the end is no error")
	}
	write(t, u, "!")
	if u.Size() != 12 {
		t.Errorf("Size = %d, want 12", u.Size())
	}
	wantAbsent(t, d, "/blobs/1/data")
	commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantContent(t, d, "/blobs/1/data", "hello world!")
	wantGone(t, d, "/up/1/data")
	if err := u.Close(); err != nil {
		t.Errorf("Close after Commit: %v", err)
	}
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel after Commit: %v", err)
	}
	_, err := u.Write([]byte("more"))
	wantError(t, "Write after Commit", err, driver.ErrUploadDone)
	wantContent(t, d, "/blobs/1/data", "hello world!")
}

func wantRead(t *testing.T, u driver.Upload, offset int64, want string) {
	t.Helper()
	r, err := u.Reader(t.Context(), offset)
	if err != nil {
		t.Errorf("Reader(%d): %v", offset, err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("Reader(%d) reads %q, %v; want %q", offset, got, err, want)
	}
}

// wantGone checks that there is no upload.
func wantGone(t *testing.T, d driver.Driver, path string) {
	t.Helper()
	_, err := d.OpenUpload(t.Context(), path)
	wantError(t, "OpenUpload("+path+")", err, driver.ErrNotExist)
	_, err = d.UploadSize(t.Context(), path)
	wantError(t, "UploadSize("+path+")", err, driver.ErrNotExist)
}

func testUploadInSessions(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	want := ""
	for _, part := range []string{"one ", "", "two ", pattern(100_000), " three"} {
		write(t, u, part)
		want += part
		if err := u.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		u = reopen(t, d, "/up/1/data")
		if u.Size() != int64(len(want)) {
			t.Fatalf("Size = %d after reopening, want %d", u.Size(), len(want))
		}
		wantRead(t, u, 0, want)
	}
	commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantContent(t, d, "/blobs/1/data", want)
}

func testUploadReplaces(t *testing.T, d driver.Driver) {
	put(t, d, "/blobs/1/data", "damag")
	u := create(t, d, "/up/1/data")
	write(t, u, "whole")
	commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantContent(t, d, "/blobs/1/data", "whole")
}

// testUploadOfManySizes crosses the sizes from which on drivers work in parts.
func testUploadOfManySizes(t *testing.T, d driver.Driver) {
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 5<<20 + 1, 26 << 20} {
		want := pattern(size)
		u := create(t, d, "/up/1/data")
		for rest := want; rest != ""; {
			n := min(len(rest), 3<<20)
			write(t, u, rest[:n])
			rest = rest[n:]
		}
		commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: u}})
		wantContent(t, d, "/blobs/1/data", want)
	}
}

func testUploadCancelled(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	wantGone(t, d, "/up/1/data")
	_, err := u.Write([]byte("x"))
	wantError(t, "Write after Cancel", err, driver.ErrUploadDone)
	if err := errors.Join(u.Close(), u.Cancel(t.Context())); err != nil {
		t.Errorf("Close and Cancel after Cancel: %v", err)
	}
	closeUpload(t, create(t, d, "/up/1/data"))
}

func testUploadClosed(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	if err := errors.Join(u.Close(), u.Close()); err != nil {
		t.Errorf("Close, twice: %v", err)
	}
	_, err := u.Write([]byte("x"))
	wantError(t, "Write after Close", err, driver.ErrUploadDone)
	err = d.Commit(t.Context(), driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantError(t, "Commit after Close", err, driver.ErrUploadDone)
	wantAbsent(t, d, "/blobs/1/data")
	wantRead(t, reopen(t, d, "/up/1/data"), 0, "x")
}

func testUploadMissing(t *testing.T, d driver.Driver) {
	put(t, d, "/up/2/startedat", "x")
	for _, path := range []string{"/up/1/data", "/up/2/data", "/up/2", "/up/2/startedat/data"} {
		wantGone(t, d, path)
	}
}

func testUploadTwiceCreated(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	if _, err := d.CreateUpload(t.Context(), "/up/1/data"); err == nil {
		t.Error("CreateUpload where there is one is no error")
	}
	write(t, u, "y")
	wantRead(t, u, 0, "xy")
}

func testUploadTaken(t *testing.T, d driver.Driver) {
	first := create(t, d, "/up/1/data")
	write(t, first, "one ")
	if n, err := d.UploadSize(t.Context(), "/up/1/data"); n != 4 || err != nil {
		t.Errorf("UploadSize = %d, %v; want 4", n, err)
	}
	write(t, first, "two ")
	second := reopen(t, d, "/up/1/data")
	if second.Size() != 8 {
		t.Errorf("Size = %d, want 8", second.Size())
	}
	_, err := first.Write([]byte("late"))
	wantError(t, "Write", err, driver.ErrUploadTaken)
	_, err = first.Reader(t.Context(), 0)
	wantError(t, "Reader", err, driver.ErrUploadTaken)
	wantError(t, "Cancel", first.Cancel(t.Context()), driver.ErrUploadTaken)
	write(t, second, "three")
	err = d.Commit(t.Context(), driver.Stage{{Path: "/blobs/1/data", Upload: first}})
	wantError(t, "Commit", err, driver.ErrUploadTaken)
	closeUpload(t, first)
	write(t, second, "!")
	commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: second}})
	wantContent(t, d, "/blobs/1/data", "one two three!")
}

// testUploadTakenWhileWriting checks that no byte of the first writer comes
// after the second has seen the size.
func testUploadTakenWhileWriting(t *testing.T, d driver.Driver) {
	first := create(t, d, "/up/1/data")
	begun := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			if _, err := io.WriteString(first, "aaaa"); err != nil {
				wantError(t, "Write", err, driver.ErrUploadTaken)
				return
			}
			if i == 10 {
				close(begun)
			}
		}
	})
	defer writer.Wait()
	<-begun
	second := reopen(t, d, "/up/1/data")
	size := second.Size()
	write(t, second, "b")
	writer.Wait()
	if size%4 != 0 {
		t.Errorf("the second saw %d bytes, the middle of a write", size)
	}
	wantRead(t, second, size, "b")
}

func testUploadOpenedWhileCommitted(t *testing.T, d driver.Driver) {
	want := pattern(2 << 20)
	for range 10 {
		u := create(t, d, "/up/1/data")
		write(t, u, want)
		var other sync.WaitGroup
		other.Go(func() {
			u, err := d.OpenUpload(t.Context(), "/up/1/data")
			if err == nil {
				_, err = io.WriteString(u, "late")
			}
			if err != nil && !errors.Is(err, driver.ErrNotExist) {
				t.Errorf("OpenUpload and Write: %v", err)
			}
		})
		err := d.Commit(t.Context(), driver.Stage{{Path: "/blobs/1/data", Upload: u}})
		other.Wait()
		if err == nil {
			wantContent(t, d, "/blobs/1/data", want)
		} else {
			wantError(t, "Commit", err, driver.ErrUploadTaken)
			wantAbsent(t, d, "/blobs/1/data")
		}
		commit(t, d, driver.Stage{{Path: "/blobs", Remove: true}})
		if err := d.Discard(t.Context(), "/up/1"); err != nil {
			t.Fatal(err)
		}
	}
}

func testUploadDiscarded(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	if err := d.Discard(t.Context(), "/up/1"); err != nil {
		t.Fatalf("Discard: %v", err)
	}
	err := d.Commit(t.Context(), driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantError(t, "Commit of a discarded upload", err, driver.ErrNotExist)
	wantGone(t, d, "/up/1/data")
	wantAbsent(t, d, "/blobs/1/data")
}

func testFailedCommitClosesUpload(t *testing.T, d driver.Driver) {
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	err := d.Commit(t.Context(), driver.Stage{{Path: "/blobs/../data", Upload: u}})
	wantError(t, "Commit", err, driver.ErrInvalidPath)
	_, err = u.Write([]byte("y"))
	wantError(t, "Write after a failed Commit", err, driver.ErrUploadDone)
	u = reopen(t, d, "/up/1/data")
	write(t, u, "y")
	commit(t, d, driver.Stage{{Path: "/blobs/1/data", Upload: u}})
	wantContent(t, d, "/blobs/1/data", "xy")
}
