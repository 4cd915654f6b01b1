package filesystem

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// withoutInodes mounts a file system on which not even an empty file can be made,
// until free is called.
func withoutInodes(t *testing.T) (root string, free func()) {
	t.Helper()
	root = t.TempDir()
	if err := unix.Mount("slipway-test", root, "tmpfs", 0, "size=4m,nr_inodes=400"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("mounting needs root: ", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	filler := filepath.Join(root, "filler")
	if err := os.Mkdir(filler, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		f, err := os.Create(filepath.Join(filler, strconv.Itoa(i)))
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return root, func() {
		if err := os.RemoveAll(filler); err != nil {
			t.Fatal(err)
		}
	}
}

func openAll(t *testing.T, root string, n int) (all []*Driver) {
	t.Helper()
	for range n {
		d, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		all = append(all, d)
	}
	return all
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// Where there is no room for the files that are locked, one collector is alone
// all the same, and lets a server in as soon as there is room.
func TestAloneWithoutRoom(t *testing.T) {
	root, free := withoutInodes(t)
	all, ctx := openAll(t, root, 3), t.Context()
	collector, server, other := all[0], all[1], all[2]
	unlock, err := collector.Lock(ctx)
	wantErr(t, "the first collector", err, nil)
	wanted, release, err := collector.Alone(ctx)
	wantErr(t, "alone", err, nil)
	_, err = other.Lock(ctx)
	wantErr(t, "another collector without room", err, driver.ErrNoSpace)
	_, err = server.Serve(ctx)
	wantErr(t, "a server without room", err, driver.ErrNoSpace)

	free()
	_, err = other.Lock(ctx)
	wantErr(t, "another collector", err, driver.ErrBusy)
	served := make(chan error)
	leave := func() {}
	go func() {
		var err error
		leave, err = server.Serve(ctx)
		served <- err
	}()
	for start := time.Now(); !wanted(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatal("nobody says that a server waits")
		}
	}
	release()
	wantErr(t, "the server that waited", <-served, nil)
	_, err = other.Lock(ctx)
	wantErr(t, "another collector beside the one that is not alone any more", err, driver.ErrBusy)
	unlock()
	unlock, err = other.Lock(ctx)
	wantErr(t, "the next collector", err, nil)
	_, _, err = other.Alone(ctx)
	wantErr(t, "alone beside a server", err, driver.ErrBusy)
	unlock()
	leave()
	unlock, err = collector.Lock(ctx)
	wantErr(t, "the first collector again", err, nil)
	_, release, err = collector.Alone(ctx)
	wantErr(t, "alone again", err, nil)
	release()
	unlock()
}

// What was laid in while there was room serves a collector when there is none,
// and nobody else.
func TestReserve(t *testing.T) {
	root, free := withoutInodes(t)
	d := openAll(t, root, 1)[0]
	free()
	ctx := context.Background()
	if err := d.Commit(ctx, driver.Stage{{Path: "/a/b/link", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	leave, err := d.Serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil || st.Ffree < 200 {
		t.Errorf("%d inodes are left of 400, %v", st.Ffree, err)
	}
	for i := 0; ; i++ {
		if err := os.Mkdir(filepath.Join(root, strconv.Itoa(i)), 0o755); err != nil {
			break
		}
	}
	if err := d.Commit(ctx, driver.Stage{{Path: "/c/link", Content: []byte("x")}}); !errors.Is(err, driver.ErrNoSpace) {
		t.Errorf("a commit without room: %v", err)
	}
	if err := d.SetAside(ctx, "/a/b/link", "/aside/a/b/c/d/e/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "a", "b")); err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(ctx, "/aside/a/b/c/d/e/link", "/a/b/link"); err != nil {
		t.Errorf("back: %v", err)
	}
	if b, err := d.ReadFile(ctx, "/a/b/link", 10); err != nil || string(b) != "x" {
		t.Errorf("it has %q, %v", b, err)
	}
}
