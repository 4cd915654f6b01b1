package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slipway/shared/programtest"
)

// small makes a file system that is soon full. It needs root.
var small = map[string]func(t *testing.T) string{
	"ext4 without inodes": func(t *testing.T) string { return loop(t, "64M", "-N", "500", "-m", "0") },
	"ext4 without bytes":  func(t *testing.T) string { return loop(t, "24M", "-m", "0") },
	"tmpfs without inodes": func(t *testing.T) string {
		return programtest.Mount(t, "tmpfs", "size=32m,nr_inodes=500")
	},
	"tmpfs without bytes": func(t *testing.T) string { return programtest.Mount(t, "tmpfs", "size=8m") },
}

// loop mounts a new ext4 in a file.
func loop(t *testing.T, size string, mkfs ...string) string {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "volume"), t.TempDir()
	runTool(t, "truncate", "-s", size, file)
	runTool(t, "mkfs.ext4", append(mkfs, "-q", file)...)
	runTool(t, "mount", "-o", "loop", file, dir)
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return dir
}

// fill takes all room: the bytes, unless it is the inodes that are to run out,
// and then the inodes.
func fill(t *testing.T, dir string, bytes bool) {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	if err := os.MkdirAll(filler, 0o755); err != nil {
		t.Fatal(err)
	}
	if bytes {
		fillBytes(t, filepath.Join(filler, "bytes"))
	}
	for i := range 100_000 {
		f, err := os.Create(filepath.Join(filler, strconv.Itoa(i)))
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if bytes && i > 20 {
			return
		}
	}
	t.Fatal("the volume does not become full")
}

func fillBytes(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// A volume that is full to the last byte or inode is served, and can be freed:
// one that is new to this registry, and one that is not.
func TestFullVolume(t *testing.T) {
	for name, volume := range small {
		for _, writer := range []string{"docker-registry", "slipway"} {
			t.Run(name+", written by "+writer, func(t *testing.T) {
				t.Parallel()
				dir := volume(t)
				root := filepath.Join(dir, "root")
				images := fillVolume(t, root, writer)
				fill(t, dir, strings.HasSuffix(name, "bytes"))
				p := startSlipway(t, root, healthFast...)
				wantHeldBack(t, p.addr, root)
				for tag, img := range images {
					if tag != "gone" {
						img.pulls(t, p.addr, "app", tag)
					}
				}
				if writer != "slipway" {
					// A collection beside a registry needs a file, which nobody has made before
					// the volume was full.
					out, err := gcCommand(root, nil).CombinedOutput()
					if err == nil || !strings.Contains(string(out), "the storage is full: stop the registries") {
						t.Errorf("a collection that has no room: %v %s", err, out)
					}
					_ = p.stop(t)
				}
				collectGarbage(t, root, "--age", "0s")
				wantOnDisk(t, root, images["gone"], false)
				if writer != "slipway" {
					p = startSlipway(t, root, healthFast...)
					for _, tag := range []string{"a", "b"} {
						images[tag].pulls(t, p.addr, "app", tag)
					}
				}
				for _, tag := range []string{"a", "b"} {
					deleteReference(t, p.addr, "app", images[tag].manifest)
				}
				if got := listTags(t, p.addr, "app"); got != "kept" {
					t.Errorf("tags %q are left", got)
				}
				if writer != "slipway" {
					_ = p.stop(t)
				}
				collectGarbage(t, root, "--age", "0s")
				if writer != "slipway" {
					for i := range 150 { // for the lock files, which a registry makes that is new here
						os.Remove(filepath.Join(dir, "filler", strconv.Itoa(i)))
					}
					p = startSlipway(t, root, healthFast...)
				}
				newImage(t, 309, 1, 20_000).push(t, p.addr, "app", "new")
				images["kept"].pulls(t, p.addr, "app", "kept")
				waitHealth(t, p.addr, http.StatusOK)
			})
		}
	}
}

// fillVolume pushes three images and one that is deleted again.
func fillVolume(t *testing.T, root, writer string) map[string]*image {
	t.Helper()
	var p *process
	if writer == "slipway" {
		p = startSlipway(t, root)
	} else {
		p = startPeer(t, writer, root)
	}
	images := map[string]*image{}
	for i, tag := range []string{"gone", "a", "b", "kept"} {
		images[tag] = newImage(t, uint64(300+i), 2, 100_000)
		images[tag].push(t, p.addr, "app", tag)
	}
	deleteReference(t, p.addr, "app", images["gone"].manifest)
	_ = p.stop(t) // distribution ends with the signal
	return images
}

// wantHeldBack says that a push onto a full volume is answered with a sentence.
func wantHeldBack(t *testing.T, addr, root string) {
	t.Helper()
	resp, body := fetch(t, "POST", "http://"+addr+"/v2/app/blobs/uploads/", nil, nil)
	if resp.StatusCode < 500 || strings.Contains(string(body), root) ||
		!strings.Contains(string(body), "the storage is full") && !strings.Contains(string(body), "no space left") {
		t.Errorf("POST onto a full volume: %s %s", resp.Status, body)
	}
}

// A volume that could only be read when the registry started, and is made
// writable, is pushed to as soon as it can be, and no collection takes that for garbage.
func TestVolumeBecomesWritable(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=20m")
	root := filepath.Join(dir, "root")
	p := startSlipway(t, root)
	img := newImage(t, 310, 1, 10_000)
	img.push(t, p.addr, "app", "v1")
	if err := p.stop(t); err != nil {
		t.Fatal(err)
	}
	remountReadOnly(t, dir)
	p = startSlipway(t, root)
	resp, body := fetch(t, "POST", "http://"+p.addr+"/v2/app/blobs/uploads/", nil, nil)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "the storage is read-only") {
		t.Errorf("POST onto a read-only volume: %s %s", resp.Status, body)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	newImage(t, 311, 1, 10_000).push(t, p.addr, "app", "v2")
	if out := collectGarbage(t, root, "-m"); !strings.Contains(out, "0 blobs and 0 manifests eligible") {
		t.Errorf("what was just pushed is garbage: %s", programtest.Tail(out))
	}
	img.pulls(t, p.addr, "app", "v1")
}
