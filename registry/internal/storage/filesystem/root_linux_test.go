package filesystem

import (
	"bytes"
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
	_, createErr := s.CreateUpload(ctx, "/a/_uploads/1/data", storage.UploadHint{})
	_, uploadErr := s.ResumeUpload(ctx, "/a/_uploads/1/data")
	var listErr error
	for _, listErr = range s.List(ctx, "/a", storage.ListOptions{}) {
	}
	for what, err := range map[string]error{
		"Stat": statErr, "Open": openErr, "List": listErr,
		"CreateUpload": createErr, "OpenUpload": uploadErr,
		"Check": s.Check(ctx, false), "Check with a write": s.Check(ctx, true),
		"Apply":               s.Apply(ctx, nil, storage.Stage{{Key: "/a/g", Content: []byte("x")}}),
		"Apply of a deletion": s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Delete: true}}),
		"Apply of a mount":    s.Apply(ctx, nil, storage.Stage{{Key: "/b/f", Content: []byte("x"), Like: "/a/f"}}),
		"Apply of a note":     s.Apply(ctx, nil, storage.Stage{{Key: "/a/_uploads/1/startedat", Content: []byte("x"), Ephemeral: true}}),
		"Apply of a renewal":  s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Renew: true, Content: []byte("x")}}),
	} {
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
		if err != nil && strings.Contains(err.Error(), s.root) {
			t.Errorf("%s: the error names the root: %v", what, err)
		}
	}
	if g := s.Generation(ctx, "/a"); g != "" {
		t.Errorf("Generation = %q", g)
	}
}

func wantAvailable(t *testing.T, s *Store) {
	t.Helper()
	if got, err := readAll(t.Context(), s, "/a/f"); err != nil || string(got) != "x" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := s.Check(t.Context(), true); err != nil {
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

func TestLoopingRoot(t *testing.T) {
	root := t.TempDir() + "/root"
	s := populated(t, root)
	move(t, root, root+".away")
	if err := os.Symlink("root", root); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, s)
	if _, err := Open(root); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
		t.Errorf("Open of a loop: %v", err)
	}
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
	if err := s.Check(t.Context(), false); err != nil {
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
	_, createErr := s.CreateUpload(ctx, "/b/_uploads/1/data", storage.UploadHint{})
	for what, err := range map[string]error{
		"Apply": s.Apply(ctx, nil, storage.Stage{{Key: "/b/f", Content: []byte("x")}}), "CreateUpload": createErr,
		"Check":               s.Check(ctx, true),
		"Apply of a note":     s.Apply(ctx, nil, storage.Stage{{Key: "/b/f", Content: []byte("x"), Ephemeral: true}}),
		"Apply of a renewal":  s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Renew: true}}),
		"Apply of a deletion": s.Apply(ctx, nil, storage.Stage{{Key: "/a/f", Delete: true}}),
	} {
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v, want %v", what, err, reason)
		}
	}
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=4m")
	s := populated(t, root)
	u, err := s.CreateUpload(t.Context(), "/a/_uploads/1/data", storage.UploadHint{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := u.Write(make([]byte, 8<<20))
	if !errors.Is(err, storage.ErrNoSpace) {
		t.Errorf("Write on a full disk: %v, want ErrNoSpace", err)
	}
	if size(u) != int64(n) || n == 0 || n >= 4<<20 {
		t.Errorf("%d bytes written, Size %d; want the part that fitted", n, size(u))
	}
	for _, err := range []error{
		s.Apply(t.Context(), nil, storage.Stage{{Key: "/b/f", Content: []byte("x")}}),
		s.Apply(t.Context(), nil, storage.Stage{{Key: "/b/f", Content: []byte("x"), Ephemeral: true}}), s.Check(t.Context(), true),
	} {
		if !errors.Is(err, storage.ErrNoSpace) {
			t.Errorf("write on a full disk: %v, want ErrNoSpace", err)
		}
	}
	if got, err := readAll(t.Context(), s, "/a/f"); err != nil || string(got) != "x" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := u.Cancel(t.Context()); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	wantAvailable(t, s)
	wantStaging(t, s, 0)
}

func TestWritesGoOnAfterSpaceIsBack(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=4m")
	s := populated(t, root)
	if err := os.WriteFile(root+"/ballast", make([]byte, 3<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	u, err := s.CreateUpload(t.Context(), "/a/_uploads/1/data", storage.UploadHint{})
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<16)
	n, err := u.Write(want)
	if !errors.Is(err, storage.ErrNoSpace) {
		t.Fatalf("Write = %d, %v", n, err)
	}
	os.Remove(root + "/ballast")
	if _, err := u.Write(want[n:]); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/b/data", Upload: u}}); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t.Context(), s, "/b/data"); err != nil || !bytes.Equal(got, want) {
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
	s := openRoot(t, root)
	defer s.Close()
	ctx, up := t.Context(), "/docker/_uploads/1"
	apply(t, s, storage.Change{Key: up + "/startedat", Content: []byte("now"), Ephemeral: true})
	u, err := s.CreateUpload(ctx, up+"/data", storage.UploadHint{})
	check(t, err)
	_, err = u.Write([]byte("hello"))
	check(t, err)
	apply(t, s, storage.Change{Key: "/docker/blob", Upload: u}, storage.Change{Key: "/docker/tags/v1/link", Content: []byte("x")})
	apply(t, s, storage.Change{Key: up + "/startedat", Delete: true, Ephemeral: true})
	for key, want := range map[string]string{"/docker/blob": "hello", "/docker/tags/v1/link": "x"} {
		if b, err := readAll(ctx, s, key); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v", key, b, err)
		}
	}
	apply(t, s, storage.Change{Key: "/docker/tags/v1/link", Delete: true})
	if entries, err := os.ReadDir(root + "/docker"); err != nil || len(entries) != 1 {
		t.Errorf("the tree has %v, %v", entries, err)
	}
	wantStaging(t, s, 0)
}

// What somebody else owns can be read, and says what is refused.
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

// asNobody calls f with no more rights on files than anybody has.
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

// A file whose time only its owner may set is written again to be renewed.
func TestRenewalOfSomebodyElsesFile(t *testing.T) {
	root := t.TempDir()
	s := populated(t, root)
	check(t, os.Chmod(root+"/a/f", 0o444))
	for _, dir := range []string{"/..", "", "/a", "/.staging"} {
		check(t, os.Chmod(root+dir, 0o777))
	}
	before, err := s.Stat(t.Context(), "/a/f")
	check(t, err)
	time.Sleep(fineTick)
	asNobody(t, func() {
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a/f", Content: []byte("x"), Renew: true}}); err != nil {
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

// Sections begin where nothing can be written, too.
func TestSectionsOnAReadOnlyRoot(t *testing.T) {
	volume, root := t.TempDir(), t.TempDir()
	mount(t, volume, root, "", unix.MS_BIND, "")
	check(t, unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	s := openRoot(t, root)
	defer s.Close()
	section, err := s.Coordinator().Begin(t.Context())
	check(t, err)
	if section.Run() != "" || section.Listed("/a") {
		t.Error("something is listed")
	}
	section.End()
	lease, err := s.Coordinator().Join(t.Context())
	check(t, err)
	lease.Release()
	err = s.Coordinator().Publish(t.Context(), storage.Pending{})
	wantErr(t, "Publish", err, storage.ErrReadOnly)
}

// Who may not use the locks of others has no sections; who may not even make them
// does without.
func TestSectionsWithoutRights(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	for _, dir := range []string{"/..", ""} {
		check(t, os.Chmod(root+dir, 0o555))
		defer os.Chmod(root+dir, 0o777)
	}
	begin := func() (err error) {
		asNobody(t, func() {
			var section storage.Section
			if section, err = s.Coordinator().Begin(t.Context()); err == nil {
				section.End()
			}
		})
		return err
	}
	wantErr(t, "Begin where nobody has locks", begin(), nil)
	for _, name := range []string{epochName, "gate-0", "gate-1", pendingName} {
		write(t, root+"/.locks/"+name, "")
		check(t, os.Chmod(root+"/.locks/"+name, 0o600))
	}
	check(t, os.Chmod(root+"/.locks", 0o755))
	if os.Geteuid() == 0 { // else they are its own
		wantErr(t, "Begin with the locks of others", begin(), storage.ErrDenied)
	}
}

// Uploads that fail for lack of room keep no descriptor once they are left.
func TestDescriptorsOnAFullDisk(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0, "size=1m")
	s := openRoot(t, root)
	defer s.Close()
	for _, end := range []func(storage.Upload) error{
		func(u storage.Upload) error { return u.Suspend(t.Context(), nil) },
		func(u storage.Upload) error { return u.Cancel(t.Context()) },
		func(u storage.Upload) error {
			_ = s.Apply(t.Context(), nil, storage.Stage{{Key: "/big", Upload: u}, {Key: "/b/link", Content: make([]byte, 1<<20)}})
			return nil
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
