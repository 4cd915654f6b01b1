package filesystem

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
	"slipway/shared/programtest"
)

// mount mounts for the time of the test; only root can.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) (unmount func()) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can mount")
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
func wantUnavailable(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	_, statErr := s.Stat(ctx, "/a/f")
	_, openErr := s.Open(ctx, "/a/f", 0, -1)
	_, createErr := s.OpenUpload(ctx, "/a/_uploads/1/data", storage.UploadOptions{Create: true})
	_, uploadErr := s.OpenUpload(ctx, "/a/_uploads/1/data", storage.UploadOptions{})
	var listErr error
	for _, listErr = range s.List(ctx, "/a", storage.ListOptions{}) {
	}
	for what, err := range map[string]error{
		"Stat": statErr, "Open": openErr, "List": listErr,
		"OpenUpload to create": createErr, "OpenUpload": uploadErr,
		"Check": storage.Check(ctx, s, "/a", false), "Check with a write": storage.Check(ctx, s, "/a", true),
		"Apply":               s.Apply(ctx, nil, storage.Stage{{Key: "/a/g", Content: []byte("x")}}),
		"Apply of a deletion": s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Delete: true}}),
		"Apply of an attempt": s.Apply(ctx, s.Begin(), storage.Stage{{Key: "/b/f", Content: []byte("x")}}),
		"Apply of a note":     s.Apply(ctx, nil, storage.Stage{{Key: "/a/_uploads/1/startedat", Content: []byte("x"), Ephemeral: true}}),
		"Apply of a renewal":  s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Renew: true}}),
	} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
		if err != nil && strings.Contains(err.Error(), s.root) {
			t.Errorf("%s: the error names the root: %v", what, err)
		}
	}
	if _, err := s.Stat(ctx, "/a/"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Stat of a prefix: %v", err)
	}
}

func wantAvailable(t *testing.T, s *Store) {
	t.Helper()
	if got, err := readAll(t.Context(), s, "/a/f"); err != nil || string(got) != "x" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := storage.Check(t.Context(), s, "/a", true); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a/g", Content: []byte("x")}}); err != nil {
		t.Errorf("Apply: %v", err)
	}
}

func populated(t *testing.T, root string) *Store {
	t.Helper()
	s := openRoot(t, root)
	t.Cleanup(func() { s.Close() })
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a/f", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLostMount(t *testing.T) {
	volume, root := t.TempDir(), t.TempDir()
	unmount := mount(t, volume, root, "", unix.MS_BIND, "")
	s := populated(t, root)
	unmount()
	wantUnavailable(t, s)
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("the directory below the mount has %v, %v", entries, err)
	}
	mount(t, volume, root, "", unix.MS_BIND, "")
	wantAvailable(t, s)
}

func TestVanishedRoot(t *testing.T) {
	root := t.TempDir() + "/root"
	s := populated(t, root)
	move(t, root, root+".away")
	wantUnavailable(t, s)
	if _, err := s.Stat(t.Context(), "/a/f"); !errors.Is(err, storage.ErrTemporary) {
		t.Errorf("%v, want ErrTemporary: clients are asked to come again", err)
	}
	if _, err := os.Lstat(root); !os.IsNotExist(err) {
		t.Errorf("the root was created again: %v", err)
	}
	if err := os.Mkdir(root, 0o777); err != nil { // as a lost mount looks
		t.Fatal(err)
	}
	wantUnavailable(t, s)
	os.Remove(root)
	move(t, root+".away", root)
	wantAvailable(t, s)
}

func TestStagingRemovedByHand(t *testing.T) {
	root := t.TempDir()
	s := populated(t, root)
	if err := os.RemoveAll(root + "/.staging"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "/a/none"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat: %v, want ErrNotExist: the root is there", err)
	}
	wantAvailable(t, s)
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
	write(t, volume+"/.locks/keys", "") // by an earlier server
	unmount := mount(t, volume, root, "", unix.MS_BIND, "")
	if err := unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s := openRoot(t, root)
	defer s.Close()
	if got, err := readAll(t.Context(), s, "/a/f"); err != nil || string(got) != "x" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := s.Stat(t.Context(), "/a/none"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat: %v, want ErrNotExist", err)
	}
	old := storage.NewAttempt(time.Now().Add(time.Hour), 0, s.Begin().Token(), nil) // finds everything stale
	if _, err := storage.Rely(t.Context(), s, old, "/a/f"); err != nil {
		t.Errorf("Rely: %v", err)
	}
	if err := storage.Check(t.Context(), s, "/a", false); err != nil {
		t.Errorf("Check: %v", err)
	}
	wantWrites(t, s, storage.ErrReadOnly)
	unmount()
	mount(t, volume, root, "", unix.MS_BIND, "")
	wantAvailable(t, s)
}

// wantWrites checks that each kind of write fails for the reason.
func wantWrites(t *testing.T, s *Store, reason error) {
	t.Helper()
	ctx := t.Context()
	_, createErr := s.OpenUpload(ctx, "/b/_uploads/1/data", storage.UploadOptions{Create: true})
	for what, err := range map[string]error{
		"Apply": s.Apply(ctx, nil, storage.Stage{{Key: "/b/f", Content: []byte("x")}}), "CreateUpload": createErr,
		"Check":               storage.Check(ctx, s, "/a", true),
		"Apply of a note":     s.Apply(ctx, nil, storage.Stage{{Key: "/b/f", Content: []byte("x"), Ephemeral: true}}),
		"Apply of a renewal":  s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Renew: true}}),
		"Apply of a deletion": s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Delete: true}}),
	} {
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v, want %v", what, err, reason)
		}
	}
}

// Files of another owner can be read; changes are denied.
func TestDenied(t *testing.T) {
	root := t.TempDir()
	s := populated(t, root)
	check(t, os.Chmod(root+"/a/f", 0o444))
	for _, dir := range []string{"/..", "", "/a", "/.staging"} {
		check(t, os.Chmod(root+dir, 0o555))
		defer os.Chmod(root+dir, 0o777)
	}
	asNobody(t, func() {
		for what, c := range map[string]storage.Change{
			"a put": {Key: "/a/g", Content: []byte("x")}, "a deletion": {Key: "/a/f", Delete: true},
		} {
			if err := s.Apply(t.Context(), nil, storage.Stage{c}); !errors.Is(err, storage.ErrDenied) {
				t.Errorf("Apply of %s: %v, want ErrDenied", what, err)
			}
		}
		if b, err := readAll(t.Context(), s, "/a/f"); err != nil || string(b) != "x" {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

// asNobody calls f with the file rights of user 65534.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // which ends with the goroutine
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}

// A renewal writes a file again if only its owner may set its time.
func TestRenewalOfSomebodyElsesFile(t *testing.T) {
	root := t.TempDir()
	s := populated(t, root)
	check(t, os.Chmod(root+"/a/f", 0o444))
	for _, dir := range []string{"/..", "", "/a", "/.staging"} {
		check(t, os.Chmod(root+dir, 0o777))
	}
	check(t, os.Chmod(s.current.Load().dir, 0o777))
	before, err := s.Stat(t.Context(), "/a/f")
	check(t, err)
	time.Sleep(fineTick)
	asNobody(t, func() {
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a/f", Renew: true}}); err != nil {
			t.Error(err)
		}
	})
	after, err := s.Stat(t.Context(), "/a/f")
	if err != nil || !after.Modified.After(before.Modified) {
		t.Errorf("renewed, it is of %v, %v; before of %v", after.Modified, err, before.Modified)
	}
	if b, err := readAll(t.Context(), s, "/a/f"); err != nil || string(b) != "x" {
		t.Errorf("read %q, %v", b, err)
	}
}

// Uploads that fail for lack of room keep no descriptor once they are left.
func TestDescriptorsOnAFullDisk(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=1m")
	s := openRoot(t, root)
	defer s.Close()
	for _, end := range []func(storage.Upload) error{
		func(u storage.Upload) error { return u.Suspend(t.Context(), 0, nil) },
		func(u storage.Upload) error { return u.Cancel(t.Context()) },
		func(u storage.Upload) error {
			_ = s.Apply(t.Context(), nil, storage.Stage{{Key: "/big", Upload: u}, {Key: "/b/link", Content: make([]byte, 1<<20)}})
			return u.Suspend(t.Context(), 0, nil)
		},
	} {
		u := create(t, s)
		if _, err := u.Write(make([]byte, 2<<20)); !errors.Is(err, storage.ErrNoSpace) {
			t.Fatalf("Write: %v, want ErrNoSpace", err)
		}
		check(t, end(u))
		wantNoUploads(t, s)
		apply(t, s, storage.Change{Key: upKey, Delete: true, Ephemeral: true}, storage.Change{Key: "/big", Delete: true, Ephemeral: true})
	}
}

// A tree that is split over file systems is refused with the reason.
func TestTreeOnAnotherFileSystem(t *testing.T) {
	root := t.TempDir()
	check(t, os.Mkdir(root+"/docker", 0o777))
	mount(t, "tmpfs", root+"/docker", "tmpfs", 0, "size=4m")
	s := openRoot(t, root)
	defer s.Close()
	err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/docker/tags/v1/link", Content: []byte("x")}})
	wantErr(t, "Apply", err, errSplit)
	if entries, err := os.ReadDir(root + "/docker"); err != nil || len(entries) != 0 {
		t.Errorf("the tree has %v, %v", entries, err)
	}
	wantStaging(t, s, 0)
}

// Servers and collections lock a volume that is read-only or has no room.
func TestLocksWithoutWriting(t *testing.T) {
	full := withoutInodes(t)
	readOnly := t.TempDir()
	mount(t, t.TempDir(), readOnly, "", unix.MS_BIND, "")
	check(t, unix.Mount("", readOnly, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for name, root := range map[string]string{"full": full, "read-only": readOnly} {
		server, collector := openRoot(t, root), openRoot(t, root)
		unlock, err := server.Lock(t.Context(), storage.LockServers, true)
		wantErr(t, name+": the server", err, nil)
		_, err = collector.Lock(t.Context(), storage.LockServers, false)
		wantErr(t, name+": a collection beside the server", err, storage.ErrBusy)
		unlock()
		c, err := collector.Collect(t.Context())
		wantErr(t, name+": the collection", err, nil)
		if !c.Offline() {
			t.Errorf("%s: the collection isn't offline", name)
		}
		_, err = server.Lock(t.Context(), storage.LockServers, true)
		wantErr(t, name+": a server that starts", err, storage.ErrBusy)
		c.Close()
		server.Close()
		collector.Close()
	}
}
