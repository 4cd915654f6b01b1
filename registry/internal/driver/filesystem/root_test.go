package filesystem

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// mount mounts for the time of the test; only root can.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) (unmount func()) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("mounting needs root")
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount: %v", err)
	}
	mounted := true
	unmount = func() {
		if !mounted {
			return
		}
		mounted = false
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}
	t.Cleanup(unmount)
	return unmount
}

// wantUnavailable checks that every operation sees that the root is gone.
func wantUnavailable(t *testing.T, d *Driver) {
	t.Helper()
	ctx := t.Context()
	_, statErr := d.Stat(ctx, "/a/f")
	_, readErr := d.ReadFile(ctx, "/a/f", 100)
	_, openErr := d.Open(ctx, "/a/f")
	_, createErr := d.CreateUpload(ctx, "/a/_uploads/1/data")
	_, uploadErr := d.OpenUpload(ctx, "/a/_uploads/1/data")
	var listErr error
	for _, listErr = range d.List(ctx, "/a", "") {
	}
	for what, err := range map[string]error{
		"Stat": statErr, "ReadFile": readErr, "Open": openErr, "List": listErr,
		"CreateUpload": createErr, "OpenUpload": uploadErr,
		"Check": d.Check(ctx, false), "Check with a write": d.Check(ctx, true),
		"Commit":            d.Commit(ctx, driver.Stage{{Path: "/a/g", Content: []byte("x")}}),
		"Commit to remove":  d.Commit(ctx, driver.Stage{{Path: "/a/f", Remove: true}}),
		"Commit of a mount": d.Commit(ctx, driver.Stage{{Path: "/b/f", Content: []byte("x"), Like: "/a/f"}}),
		"Remove":            d.Remove(ctx, "/a/f"),
		"WriteScratch":      d.WriteScratch(ctx, "/a/_uploads/1/startedat", []byte("x")),
	} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
		if err != nil && strings.Contains(err.Error(), d.root) {
			t.Errorf("%s: the error names the root: %v", what, err)
		}
	}
	if v, ok := d.Version(ctx, "/a"); ok {
		t.Errorf("Version = %q", v)
	}
}

func wantAvailable(t *testing.T, d *Driver) {
	t.Helper()
	if got, err := d.ReadFile(t.Context(), "/a/f", 100); err != nil || string(got) != "x" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if err := d.Check(t.Context(), true); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := d.Commit(t.Context(), driver.Stage{{Path: "/a/g", Content: []byte("x")}}); err != nil {
		t.Errorf("Commit: %v", err)
	}
}

func populated(t *testing.T, root string) *Driver {
	t.Helper()
	d := openRoot(t, root)
	t.Cleanup(func() { d.Close() })
	if err := d.Commit(t.Context(), driver.Stage{{Path: "/a/f", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLostMount(t *testing.T) {
	volume, root := t.TempDir(), t.TempDir()
	unmount := mount(t, volume, root, "", unix.MS_BIND, "")
	d := populated(t, root)
	unmount()
	wantUnavailable(t, d)
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("the directory below the mount has %v, %v", entries, err)
	}
	mount(t, volume, root, "", unix.MS_BIND, "")
	wantAvailable(t, d)
}

func TestVanishedRoot(t *testing.T) {
	root := t.TempDir() + "/root"
	d := populated(t, root)
	move(t, root, root+".away")
	wantUnavailable(t, d)
	if _, err := os.Lstat(root); !os.IsNotExist(err) {
		t.Errorf("the root was created again: %v", err)
	}
	if err := os.Mkdir(root, 0o777); err != nil { // as a lost mount looks
		t.Fatal(err)
	}
	wantUnavailable(t, d)
	os.Remove(root)
	move(t, root+".away", root)
	wantAvailable(t, d)
}

func TestLoopingRoot(t *testing.T) {
	root := t.TempDir() + "/root"
	d := populated(t, root)
	move(t, root, root+".away")
	if err := os.Symlink("root", root); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, d)
	if _, err := Open(root); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
		t.Errorf("Open of a loop: %v", err)
	}
	os.Remove(root)
	move(t, root+".away", root)
	wantAvailable(t, d)
}

func TestStagingRemovedByHand(t *testing.T) {
	root := t.TempDir()
	d := populated(t, root)
	if err := os.RemoveAll(root + "/.staging"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stat(t.Context(), "/a/none"); !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat: %v, want ErrNotExist: the root is there", err)
	}
	wantAvailable(t, d)
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyRoot(t *testing.T) {
	volume, root := t.TempDir(), t.TempDir()
	write(t, volume+"/a/f", "x")
	unmount := mount(t, volume, root, "", unix.MS_BIND, "")
	if err := unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	d := openRoot(t, root)
	defer d.Close()
	if got, err := d.ReadFile(t.Context(), "/a/f", 100); err != nil || string(got) != "x" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if _, err := d.Stat(t.Context(), "/a/none"); !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat: %v, want ErrNotExist", err)
	}
	if err := d.Check(t.Context(), false); err != nil {
		t.Errorf("Check: %v", err)
	}
	wantWrites(t, d, driver.ErrReadOnly)
	unmount()
	mount(t, volume, root, "", unix.MS_BIND, "")
	wantAvailable(t, d)
}

// wantWrites checks that each kind of write fails for the reason.
func wantWrites(t *testing.T, d *Driver, reason error) {
	t.Helper()
	ctx := t.Context()
	_, createErr := d.CreateUpload(ctx, "/b/_uploads/1/data")
	for what, err := range map[string]error{
		"Commit": d.Commit(ctx, driver.Stage{{Path: "/b/f", Content: []byte("x")}}), "CreateUpload": createErr,
		"WriteScratch": d.WriteScratch(ctx, "/b/f", []byte("x")), "Check": d.Check(ctx, true),
		"Remove": d.Remove(ctx, "/a/f"), "Discard": d.Discard(ctx, "/a"),
		"Commit to remove": d.Commit(ctx, driver.Stage{{Path: "/a/f", Remove: true}}),
	} {
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v, want %v", what, err, reason)
		}
	}
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=4m")
	d := populated(t, root)
	u, err := d.CreateUpload(t.Context(), "/a/_uploads/1/data")
	if err != nil {
		t.Fatal(err)
	}
	n, err := u.Write(make([]byte, 8<<20))
	if !errors.Is(err, driver.ErrNoSpace) {
		t.Errorf("Write on a full disk: %v, want ErrNoSpace", err)
	}
	if u.Size() != int64(n) || n == 0 || n >= 4<<20 {
		t.Errorf("%d bytes written, Size %d; want the part that fitted", n, u.Size())
	}
	for _, err := range []error{
		d.Commit(t.Context(), driver.Stage{{Path: "/b/f", Content: []byte("x")}}),
		d.WriteScratch(t.Context(), "/b/f", []byte("x")), d.Check(t.Context(), true),
	} {
		if !errors.Is(err, driver.ErrNoSpace) {
			t.Errorf("write on a full disk: %v, want ErrNoSpace", err)
		}
	}
	if got, err := d.ReadFile(t.Context(), "/a/f", 100); err != nil || string(got) != "x" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	wantAvailable(t, d)
	wantStaging(t, d, 0)
}

// wantStaging checks how much is left over, beside the lock.
func wantStaging(t *testing.T, d *Driver, want int) {
	t.Helper()
	entries, err := os.ReadDir(d.staging)
	left := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == d.instance+lockSuffix })
	if err != nil || len(left) != want {
		t.Errorf("the staging directory has %v, %v; want %d entries", left, err, want)
	}
}

func TestWritesGoOnAfterSpaceIsBack(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=4m")
	d := populated(t, root)
	if err := os.WriteFile(root+"/ballast", make([]byte, 3<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	u, err := d.CreateUpload(t.Context(), "/a/_uploads/1/data")
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<16)
	n, err := u.Write(want)
	if !errors.Is(err, driver.ErrNoSpace) {
		t.Fatalf("Write = %d, %v", n, err)
	}
	os.Remove(root + "/ballast")
	if _, err := u.Write(want[n:]); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if err := d.Commit(t.Context(), driver.Stage{{Path: "/b/data", Upload: u}}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "/b/data")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v; want those that were written", len(got), err)
	}
}

// TestTreeOnAnotherFileSystem has the volume mounted below the root.
func TestTreeOnAnotherFileSystem(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/docker", 0o777); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", root+"/docker", "tmpfs", 0, "size=4m")
	d := openRoot(t, root)
	defer d.Close()
	ctx, up := t.Context(), "/docker/_uploads/1"
	if err := d.WriteScratch(ctx, up+"/startedat", []byte("now")); err != nil {
		t.Fatal(err)
	}
	u, err := d.CreateUpload(ctx, up+"/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	commitLink(t, d, driver.Change{Path: "/docker/blob", Upload: u}, driver.Change{Path: "/docker/tags/v1/link", Content: []byte("x")})
	if err := d.Discard(ctx, up); err != nil {
		t.Errorf("Discard: %v", err)
	}
	for path, want := range map[string]string{"/docker/blob": "hello", "/docker/tags/v1/link": "x"} {
		if b, err := d.ReadFile(ctx, path, 10); err != nil || string(b) != want {
			t.Errorf("ReadFile(%s) = %q, %v", path, b, err)
		}
	}
	commitLink(t, d, driver.Change{Path: "/docker/tags", Remove: true})
	if _, err := d.Stat(ctx, "/docker/tags"); !errors.Is(err, driver.ErrNotExist) {
		t.Errorf("Stat of what was removed: %v", err)
	}
	if entries, err := os.ReadDir(root + "/docker"); err != nil || len(entries) != 2 { // blob and _uploads
		t.Errorf("the tree has %v, %v", entries, err)
	}
	wantStaging(t, d, 0)
}
