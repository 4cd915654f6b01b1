package filesystem

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// fillInodes makes files until there is no inode left. It returns how to undo it.
func fillInodes(t *testing.T, root string) (free func()) {
	t.Helper()
	filler := filepath.Join(root, "filler")
	check(t, os.Mkdir(filler, 0o755))
	for i := range 1000 {
		f, err := os.Create(filepath.Join(filler, strconv.Itoa(i)))
		if errors.Is(err, unix.ENOSPC) {
			return func() { check(t, os.RemoveAll(filler)) }
		}
		check(t, err)
		f.Close()
	}
	t.Fatal("the file system is not full")
	return nil
}

// withoutInodes mounts a file system on which not even an empty file can be made,
// until free is called. It has the object /a/b/link.
func withoutInodes(t *testing.T) (root string, free func()) {
	t.Helper()
	root = t.TempDir()
	mount(t, "slipway-test", root, "tmpfs", 0, "size=4m,nr_inodes=400")
	write(t, root+"/a/b/link", "x")
	return root, fillInodes(t, root)
}

// Deletions need no room for anything, on a volume that we see for the first time.
func TestDeleteWithoutRoom(t *testing.T) {
	root, _ := withoutInodes(t)
	write(t, root+"/filler/0", "") // exists, so that the next has a name that does
	s := openRoot(t, root)
	defer s.Close()
	ctx := t.Context()
	wantErr(t, "Apply of a put", s.Apply(ctx, nil, storage.Stage{{Key: "/c/link", Content: []byte("x")}}), storage.ErrNoSpace)
	wantErr(t, "Apply of a renewal", s.Apply(ctx, nil, storage.Stage{{Key: "/a/b/link", Content: []byte("x"), Renew: true}}), nil)
	time.Sleep(2 * fineTick)
	info, err := s.Stat(ctx, "/a/b/link")
	check(t, err)
	wrong := storage.Change{Key: "/a/b/link", Delete: true, If: storage.IfVersion("other")}
	wantErr(t, "Apply of a deletion of another version", s.Apply(ctx, nil, storage.Stage{wrong}), storage.ErrConflict)
	right := storage.Change{Key: "/a/b/link", Delete: true, If: storage.IfVersion(info.Version)}
	wantErr(t, "Apply of a deletion", s.Apply(ctx, nil, storage.Stage{right}), nil)
	if _, err := os.Lstat(root + "/a"); !os.IsNotExist(err) {
		t.Errorf("its directory is there: %v", err)
	}
}

// Where there is no room for the files that are locked, one collector is exclusive
// all the same, and lets others in when it ends.
func TestExclusiveWithoutRoom(t *testing.T) {
	root, free := withoutInodes(t)
	all, ctx := openAll(t, root, 3), t.Context()
	collector, server, other := all[0], all[1], all[2]
	lock, err := collector.Lock(ctx, storage.CollectorLock)
	wantErr(t, "the first collector", err, nil)
	wantErr(t, "a list without room", collector.Publish(ctx, storage.Pending{Run: "r"}), storage.ErrNoSpace)
	exclusive, err := collector.Exclusive(ctx)
	wantErr(t, "exclusive", err, nil)
	_, err = other.Lock(ctx, storage.CollectorLock)
	wantErr(t, "another collector without room", err, storage.ErrBusy)
	_, err = other.Exclusive(ctx)
	wantErr(t, "another one who is exclusive", err, storage.ErrBusy)

	free()
	joined := make(chan error)
	var member storage.Lease
	go func() {
		var err error
		member, err = server.Join(ctx)
		joined <- err
	}()
	select {
	case err := <-joined:
		t.Fatalf("a server joins beside the collector: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	exclusive.Release()
	lock.Release()
	wantErr(t, "the server that waited", <-joined, nil)
	lock, err = other.Lock(ctx, storage.CollectorLock)
	wantErr(t, "the next collector", err, nil)
	_, err = other.Exclusive(ctx)
	wantErr(t, "exclusive beside a server", err, storage.ErrBusy)
	member.Release()
	exclusive, err = other.Exclusive(ctx)
	wantErr(t, "exclusive after the server", err, nil)
	exclusive.Release()
	lock.Release()
}

// What a server has made while there was room serves a collector when there is
// none.
func TestCollectBesideOthersWithoutRoom(t *testing.T) {
	root := t.TempDir()
	mount(t, "slipway-test", root, "tmpfs", 0, "size=64m,nr_inodes=400")
	write(t, root+"/a/b/link", "x")
	all, ctx := openAll(t, root, 2), t.Context()
	server, collector := all[0], all[1]
	member, err := server.Join(ctx)
	check(t, err)
	defer member.Release()
	fillInodes(t, root)
	if err := os.WriteFile(root+"/filler/0", make([]byte, 64<<20), 0o666); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the file system is not full: %v", err)
	}
	lock, err := collector.Lock(ctx, storage.CollectorLock)
	wantErr(t, "Lock", err, nil)
	defer lock.Release()
	keys := make([]string, storage.MaxPending)
	for i := range keys {
		keys[i] = "/a/" + strconv.Itoa(i)
	}
	wantErr(t, "Publish", collector.Publish(ctx, storage.Pending{Run: "r", Keys: keys}), nil)
	section, err := server.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	if section.Run() != "r" || !section.Listed(keys[len(keys)-1]) || section.Listed("/b") {
		t.Error("the section does not see the list")
	}
	section.End()
	wantErr(t, "Barrier", collector.Barrier(ctx), nil)
	wantErr(t, "Apply", collector.s.Apply(ctx, nil, storage.Stage{{Key: "/a/b/link", Delete: true}}), nil)
	wantErr(t, "Publish of nothing", collector.Publish(ctx, storage.Pending{}), nil)
}
