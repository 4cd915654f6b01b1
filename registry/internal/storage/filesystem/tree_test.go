package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
	"slipway/shared/programtest"
)

func TestModesFollowUmask(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	u, err := s.OpenUpload(t.Context(), "/r/_uploads/1/data", storage.UploadOptions{Create: true})
	check(t, err)
	kept, err := s.OpenUpload(t.Context(), "/r/_uploads/2/data", storage.UploadOptions{Create: true})
	check(t, err)
	check(t, kept.Suspend(t.Context(), 0, nil))
	apply(t, s, storage.Change{Key: "/r/link", Content: []byte("x")}, storage.Change{Key: "/r/data", Upload: u})
	for name, want := range map[string]os.FileMode{"r": 0o750, "r/_uploads/2": 0o750, "r/link": 0o640, "r/data": 0o640} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

// An import as root leaves files that the server can write.
func TestNewFilesBelongToTheOwnerOfTheRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can give files away")
	}
	root := t.TempDir()
	const uid, gid = 1234, 5678
	check(t, os.Chown(root, uid, gid))
	s := openRoot(t, root)
	defer s.Close()
	u, err := s.OpenUpload(t.Context(), "/r/_uploads/1/data", storage.UploadOptions{Create: true})
	check(t, err)
	apply(t, s, storage.Change{Key: "/r/t/link", Content: []byte("x")}, storage.Change{Key: "/r/data", Upload: u},
		storage.Change{Key: "/r/note", Content: []byte("x"), Ephemeral: true})
	unlock, err := s.Lock(t.Context(), storage.LockServers, true)
	check(t, err)
	defer unlock()
	n := 0
	check(t, filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err := errors.Join(err, unix.Lstat(name, &st)); err != nil {
			return err
		}
		if st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d, want %d:%d", name, st.Uid, st.Gid, uid, gid)
		}
		n++
		return nil
	}))
	if n < 10 {
		t.Errorf("looked at %d files and directories only", n)
	}
}

// Directories that another user's process has made in a volume are named, and what to do.
func TestPrivateDirectoriesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can be another user")
	}
	root, err := os.MkdirTemp("/tmp", "slipway-user-")
	check(t, err)
	defer os.RemoveAll(root)
	s := openRoot(t, root)
	apply(t, s, storage.Change{Key: "/d/f", Content: []byte("x")})
	check(t, s.Close())
	for _, dir := range []string{root, root + "/d"} {
		check(t, os.Chown(dir, 1234, 5678))
	}
	program := filepath.Join(root, "test")
	binary, err := os.ReadFile(os.Args[0])
	check(t, err)
	check(t, os.WriteFile(program, binary, 0o755)) // where the other user may read it
	cmd := exec.Command(program, "-test.run=^TestScenario$")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "SCENARIO=another user", "SCENARIO_ROOT="+root, "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 5678}}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestOpenLeadsToTheFile(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	apply(t, s, storage.Change{Key: "/f", Content: []byte("hello world")})
	for _, length := range []int64{-1, 3} {
		o, err := s.Open(t.Context(), "/f", 2, length)
		check(t, err)
		f, ok := storage.File(o)
		if !ok {
			t.Fatalf("length %d: no file", length)
		}
		if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 2 {
			t.Errorf("length %d: the file is at %d, %v; want 2", length, at, err)
		}
		raw, err := f.SyscallConn()
		check(t, err)
		got := make([]byte, 3)
		check(t, raw.Read(func(fd uintptr) bool {
			_, err = unix.Read(int(fd), got)
			return true
		}))
		if err != nil || string(got) != "llo" {
			t.Errorf("length %d: the kernel reads %q, %v", length, got, err)
		}
		if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 5 {
			t.Errorf("length %d: the file is at %d, %v; want 5", length, at, err)
		}
		check(t, o.Close())
		_, readErr := f.Read(got)
		_, seekErr := f.Seek(0, io.SeekStart)
		for _, err := range []error{readErr, seekErr, o.Close()} {
			wantErr(t, "a closed file", err, fs.ErrClosed)
		}
	}
}

// Only regular files are objects, and others block nobody.
func TestOtherFilesAreNoObjects(t *testing.T) {
	root := t.TempDir()
	check(t, unix.Mkfifo(root+"/fifo", 0o666))
	check(t, os.Mkdir(root+"/dir", 0o777))
	check(t, os.Symlink("fifo", root+"/link"))
	s := openRoot(t, root)
	defer s.Close()
	for _, key := range []string{"/fifo", "/dir", "/link"} {
		_, statErr := s.Stat(t.Context(), key)
		_, openErr := s.Open(t.Context(), key, 0, -1)
		_, resumeErr := s.OpenUpload(t.Context(), key, storage.UploadOptions{})
		for what, err := range map[string]error{"Stat": statErr, "Open": openErr, "OpenUpload": resumeErr} {
			if !errors.Is(err, storage.ErrNotExist) {
				t.Errorf("%s(%s): %v, want ErrNotExist", what, key, err)
			}
		}
	}
	for _, names := range []bool{false, true} {
		if got := keys(t, s, storage.ListOptions{Flat: true, Names: names}); len(got) != 0 {
			t.Errorf("List(names %v) = %q, want nothing", names, got)
		}
	}
}

// keys lists below /tags.
func keys(t *testing.T, s *Store, o storage.ListOptions) (keys []string) {
	t.Helper()
	for info, err := range s.List(t.Context(), "/tags", o) {
		check(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func TestListOfAForeignTree(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/current/link", "x")
	write(t, root+"/elsewhere/f", "x")
	for name, to := range map[string]string{"dir": "../elsewhere", "file": "../elsewhere/f", "nowhere": "../none"} {
		check(t, os.Symlink(to, root+"/tags/"+name))
	}
	for _, name := range []string{"link.5f0c.tmp", ".hidden", "a b", "é"} {
		write(t, root+"/tags/"+name, "x")
	}
	check(t, unix.Mkfifo(root+"/tags/fifo", 0o666))
	s := openRoot(t, root)
	defer s.Close()
	if got, want := keys(t, s, storage.ListOptions{}), []string{"/tags/dir/", "/tags/file", "/tags/v1/"}; !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
	if got, want := keys(t, s, storage.ListOptions{Flat: true}), []string{"/tags/dir/f", "/tags/file", "/tags/v1/current/link"}; !slices.Equal(got, want) {
		t.Errorf("flat List = %q, want %q", got, want)
	}
	if b, err := readAll(t.Context(), s, "/tags/dir/f"); err != nil || string(b) != "x" {
		t.Errorf("read through a symbolic link: %q, %v", b, err)
	}
}

func TestPrefixVersionAfterAForeignChange(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/current/link", "x")
	s := openRoot(t, root)
	defer s.Close()
	young := false
	for range 100 { // the machine may be too busy to look in time
		check(t, os.Chmod(root+"/tags", 0o755))
		if young = prefixVersion(t, s) == ""; young {
			break
		}
	}
	if !young {
		t.Error("a directory that has just changed has a version")
	}
	before := settled(t, s)
	info, err := os.Stat(root + "/tags")
	check(t, err)
	write(t, root+"/tags/v2/current/link", "x")
	check(t, os.Chtimes(root+"/tags", info.ModTime(), info.ModTime())) // as rsync -a does
	if g := prefixVersion(t, s); g == before {
		t.Error("the version is that of before the change")
	}
	if settled(t, s) == before {
		t.Error("the version is that of before the change, later too")
	}
}

// What was written before the clock was set back has a version, except while the clock passes that time again. A network
// file system has a clock of its own.
func TestVersion_ClockSetBack(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	at := func(d time.Duration) *unix.Stat_t {
		changed, err := unix.TimeToTimespec(time.Now().Add(d))
		check(t, err)
		changed.Nsec |= 1
		return &unix.Stat_t{Ctim: changed, Mtim: changed}
	}
	if s.version(at(time.Hour)) == "" || s.version(at(-time.Hour)) == "" {
		t.Error("a file that changed at another time has no version")
	}
	if s.version(at(fineTick-time.Millisecond)) != "" {
		t.Error("a file that may change again within the same tick has a version")
	}
	id := *s.identity.Load()
	id.local = false
	s.identity.Store(&id)
	if s.version(at(time.Hour)) != "" {
		t.Error("a file that another machine has just changed has a version")
	}
}

func prefixVersion(t *testing.T, s *Store) string {
	t.Helper()
	info, err := s.Stat(t.Context(), "/tags/")
	check(t, err)
	return info.Version
}

// settled waits for the version of /tags.
func settled(t *testing.T, s *Store) string {
	t.Helper()
	for range 200 {
		if g := prefixVersion(t, s); g != "" {
			return g
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no version after 200 ms; is TMPDIR on a network?")
	return ""
}

// A root that does not exist is an empty store, and reading does not create it.
func TestMissingRoot(t *testing.T) {
	root := t.TempDir() + "/var/lib/registry"
	s := openRoot(t, root)
	defer s.Close()
	if _, err := s.Stat(t.Context(), "/a/f"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat: %v, want ErrNotExist", err)
	}
	if got := keys(t, s, storage.ListOptions{}); len(got) != 0 {
		t.Errorf("List = %q", got)
	}
	check(t, storage.Check(t.Context(), s, "/a", false))
	if _, err := os.Lstat(root); !os.IsNotExist(err) {
		t.Errorf("reading has created the root: %v", err)
	}
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	if b, err := readAll(t.Context(), s, "/a/f"); err != nil || string(b) != "x" {
		t.Errorf("read %q, %v", b, err)
	}
}

// Directories go with what was in them, and those of uploads do not keep them.
func TestDeletionLeavesNoDirectories(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	repo := "/docker/registry/v2/repositories/a/b"
	apply(t, s,
		storage.Change{Key: repo + "/_layers/sha256/1/link", Content: []byte("x")},
		storage.Change{Key: repo + "/_uploads/1/startedat", Content: []byte("x"), Ephemeral: true},
		storage.Change{Key: "/docker/registry/v2/repositories/c/_layers/sha256/1/link", Content: []byte("x")})
	apply(t, s, storage.Change{Key: repo + "/_uploads/1/startedat", Delete: true, Ephemeral: true})
	if _, err := os.Stat(root + repo + "/_uploads"); err != nil {
		t.Errorf("the next upload has to make the directory again: %v", err)
	}
	apply(t, s, storage.Change{Key: repo + "/_layers/sha256/1/link", Delete: true})
	entries, err := os.ReadDir(root + "/docker/registry/v2/repositories")
	if err != nil || len(entries) != 1 || entries[0].Name() != "c" {
		t.Errorf("repositories are %v, %v; want c only", entries, err)
	}
}

// A directory that another process has removed and made again is flushed with its parent.
func TestDirectoryMadeAgainByAnotherProcess(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	for _, key := range []string{"/a/b/f", "/kept", "/a/b/second"} {
		apply(t, s, storage.Change{Key: key, Content: []byte("x")})
	}
	toFlush := func() map[string]dirID {
		all := map[string]dirID{}
		check(t, s.above(root+"/a/b", all))
		return all
	}
	if got := toFlush(); len(got) != 1 {
		t.Fatalf("to flush: %v, want the directory alone", got)
	}
	check(t, os.RemoveAll(root+"/a"))
	time.Sleep(fineTick) // of the clock by which directories are born
	check(t, os.MkdirAll(root+"/a/b", 0o755))
	if got := toFlush(); len(got) != 3 {
		t.Errorf("to flush: %v, want the directory and all above it", got)
	}
	apply(t, s, storage.Change{Key: "/a/b/f", Content: []byte("x")})
	if got := toFlush(); len(got) != 1 {
		t.Errorf("to flush: %v, want the directory alone", got)
	}
}

// The memory of flushed directories is bounded. Some file systems don't store when a directory was made, and give
// its inode to the next: those aren't remembered.
func TestDurableIsBounded(t *testing.T) {
	d := &dirFlusher{durable: map[string]dirID{}}
	d.remember(map[string]dirID{"/without-birth": {ino: 7}})
	if len(d.durable) != 0 {
		t.Errorf("remembered %v", d.durable)
	}
	for i := range 2 * maxDurable {
		d.remember(map[string]dirID{fmt.Sprint("/", i): {sec: 1}})
	}
	if n := len(d.durable); n != maxDurable {
		t.Errorf("%d directories are remembered, want %d", n, maxDurable)
	}
}

// The directory above is flushed for one that was removed; a lost mount fails.
func TestDirectoryThatVanishedIsFlushedAbove(t *testing.T) {
	root := t.TempDir() + "/root"
	s := openRoot(t, root)
	defer s.Close()
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	check(t, s.flushDirs([]string{root + "/a/b/c/d"}))
	check(t, os.Rename(root, root+"-lost"))
	check(t, os.Mkdir(root, 0o755))
	wantErr(t, "a lost mount", s.flushDirs([]string{root + "/a/b/c/d"}), unix.ENOENT)
}
