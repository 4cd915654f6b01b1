package filesystem

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/shared/programtest"
)

// withoutInodes mounts a file system without room for an empty file. It has the object /a/b/link.
func withoutInodes(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	mount(t, "slipway-test", root, "tmpfs", 0, "size=4m,nr_inodes=400")
	write(t, root+"/a/b/link", "x")
	programtest.FillFiles(t, filepath.Join(root, "filler"))
	return root
}

// Deletions and renewals need no room, on a volume that the store sees for the first time.
func TestDeleteWithoutRoom(t *testing.T) {
	root := withoutInodes(t)
	write(t, root+"/filler/0", "") // exists, so that the next has a name that does
	s := openRoot(t, root)
	defer s.Close()
	ctx := t.Context()
	wantErr(t, "Apply of a put", s.Apply(ctx, nil, storage.Stage{{Key: "/c/link", Content: []byte("x")}}), storage.ErrNoSpace)
	wantErr(t, "Apply of a renewal", s.Apply(ctx, nil, storage.Stage{{Key: "/a/b/link", Renew: true}}), nil)
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

// Beside a server, the file that the server has made serves a collection on a full volume.
func TestCollectWithoutRoom(t *testing.T) {
	root := t.TempDir()
	mount(t, "slipway-test", root, "tmpfs", 0, "size=4m,nr_inodes=400")
	write(t, root+"/a/b/link", "x")
	server, collector := openRoot(t, root), openRoot(t, root)
	defer server.Close()
	defer collector.Close()
	unlock, err := server.Lock(t.Context(), storage.LockServers, true)
	check(t, err)
	defer unlock()
	programtest.FillFiles(t, filepath.Join(root, "filler"))
	collector.wait = time.Millisecond
	time.Sleep(2 * fineTick)
	c, err := collector.Collect(t.Context())
	check(t, err)
	defer c.Close()
	info, err := collector.Stat(t.Context(), "/a/b/link")
	check(t, err)
	kept, err := c.Delete(t.Context(), []storage.Info{info})
	if err != nil || len(kept) > 0 {
		t.Errorf("Delete kept %v, %v", kept, err)
	}
}
