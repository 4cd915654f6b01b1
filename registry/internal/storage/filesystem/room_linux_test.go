package filesystem

import (
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
