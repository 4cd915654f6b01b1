package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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
	u, err := s.CreateUpload(t.Context(), "/r/_uploads/1/data", storage.UploadHint{})
	check(t, err)
	apply(t, s, storage.Change{Key: "/r/link", Content: []byte("x")}, storage.Change{Key: "/r/data", Upload: u})
	for name, want := range map[string]os.FileMode{"r": 0o750, "r/_uploads/1": 0o750, "r/link": 0o640, "r/data": 0o640} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

// An administrator who imports as root does not lock the server out.
func TestNewFilesBelongToTheOwnerOfTheRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can give files away")
	}
	root := t.TempDir()
	const uid, gid = 1234, 5678
	check(t, os.Chown(root, uid, gid))
	s := openRoot(t, root)
	defer s.Close()
	u, err := s.CreateUpload(t.Context(), "/r/_uploads/1/data", storage.UploadHint{})
	check(t, err)
	apply(t, s, storage.Change{Key: "/r/t/link", Content: []byte("x")}, storage.Change{Key: "/r/data", Upload: u},
		storage.Change{Key: "/r/note", Content: []byte("x"), Ephemeral: true})
	lease, err := s.Coordinator().Join(t.Context())
	check(t, err)
	defer lease.Release()
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
	if n < 15 {
		t.Errorf("looked at %d files and directories only", n)
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
		_, rawErr := f.SyscallConn()
		for _, err := range []error{readErr, seekErr, rawErr, o.Close()} {
			wantErr(t, "a closed file", err, fs.ErrClosed)
		}
	}
}

// What is no regular file is no object, and keeps nobody waiting.
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
		_, resumeErr := s.ResumeUpload(t.Context(), key)
		for what, err := range map[string]error{"Stat": statErr, "Open": openErr, "ResumeUpload": resumeErr} {
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

// keys lists below /tags, or the root's directories that have other names.
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

func TestGenerationOfAForeignChange(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/current/link", "x")
	s := openRoot(t, root)
	defer s.Close()
	if g := s.Generation(t.Context(), "/tags"); g != "" {
		t.Error("a directory that has just changed has a generation")
	}
	before := settled(t, s)
	info, err := os.Stat(root + "/tags")
	check(t, err)
	write(t, root+"/tags/v2/current/link", "x")
	check(t, os.Chtimes(root+"/tags", info.ModTime(), info.ModTime())) // as rsync -a does
	if g := s.Generation(t.Context(), "/tags"); g == before {
		t.Error("the generation is that of before the change")
	}
	if settled(t, s) == before {
		t.Error("the generation is that of before the change, later too")
	}
}

// settled waits for the generation of /tags.
func settled(t *testing.T, s *Store) string {
	t.Helper()
	for range 200 {
		if g := s.Generation(t.Context(), "/tags"); g != "" {
			return g
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no generation after 200 ms; is TMPDIR on a network?")
	return ""
}

// Of a clock of another machine it is known what it has shown.
func TestClockElsewhere(t *testing.T) {
	c := &clock{}
	stamp := time.Now().Add(-time.Hour) // far behind
	if c.past(stamp, fineTick) {
		t.Error("a stamp is old when it is seen first")
	}
	if c.past(stamp.Add(time.Minute), fineTick) {
		t.Error("a stamp is old that is younger than all that was seen")
	}
	if !c.past(stamp, fineTick) {
		t.Error("a stamp is not old although one a minute younger was seen")
	}
	time.Sleep(2 * fineTick)
	if !c.past(stamp.Add(time.Minute), fineTick) {
		t.Error("a stamp is not old although it was seen two ticks ago")
	}
}

// Where another machine keeps the files there are versions, too, and no
// generations.
func TestVersionElsewhere(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	s.device.Store(&rootDevice{s.device.Load().dev, &clock{}})
	apply(t, s, storage.Change{Key: "/tags/v1", Content: []byte("x")})
	var info storage.Info
	for range 100 {
		var err error
		info, err = s.Stat(t.Context(), "/tags/v1")
		check(t, err)
		if info.Version != "" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	apply(t, s, storage.Change{Key: "/tags/v1", Content: []byte("y"), If: storage.IfVersion(info.Version)})
	err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/tags/v1", Delete: true, If: storage.IfVersion(info.Version)}})
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("Delete of an old version: %v, want ErrConflict", err)
	}
	if g := s.Generation(t.Context(), "/tags"); g != "" {
		t.Error("it has a generation")
	}
	c := s.Coordinator()
	lease, err := c.Lock(t.Context(), storage.CollectorLock)
	check(t, err)
	defer lease.Release()
	check(t, c.Publish(t.Context(), storage.Pending{Run: "r", Keys: []string{"/tags/v1"}}))
	section, err := c.Begin(t.Context())
	check(t, err)
	if !section.Listed("/tags/v1") {
		t.Error("it is not listed")
	}
	section.End()
	check(t, c.Barrier(t.Context()))
}

// Where another machine keeps the files, the calls that share a round publish at the same
// time, and still exclude each other.
func TestCommitsElsewhere(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	s.device.Store(&rootDevice{s.device.Load().dev, &clock{}})
	for round := range 20 {
		tag := storage.Change{Key: fmt.Sprintf("/tags/%d/link", round), Content: []byte("x"), If: storage.IfAbsent()}
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				link := storage.Change{Key: fmt.Sprintf("/links/%d/%d/link", round, i), Content: []byte("x")}
				err := s.Apply(t.Context(), nil, storage.Stage{link}, storage.Stage{tag})
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, storage.ErrConflict) {
					t.Errorf("Apply: %v", err)
				}
				if b, err := readAll(t.Context(), s, link.Key); err != nil || string(b) != "x" {
					t.Errorf("%s has %q, %v", link.Key, b, err)
				}
			})
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Errorf("%d of 16 put the tag where there was none", n)
		}
	}
}

func TestOpenRefusesAFile(t *testing.T) {
	root := t.TempDir() + "/file"
	write(t, root, "x")
	if _, err := Open(root); err == nil {
		t.Error("a file is a root")
	}
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
	check(t, s.Check(t.Context(), false))
	check(t, s.Clean(t.Context()))
	if _, err := os.Lstat(root); !os.IsNotExist(err) {
		t.Errorf("reading has created the root: %v", err)
	}
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	if b, err := readAll(t.Context(), s, "/a/f"); err != nil || string(b) != "x" {
		t.Errorf("read %q, %v", b, err)
	}
}

// Who only reads leaves no trace.
func TestReadingWritesNothing(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/link", "x")
	s := openRoot(t, root)
	if got := keys(t, s, storage.ListOptions{Flat: true}); len(got) != 1 {
		t.Errorf("List = %q", got)
	}
	_, err := readAll(t.Context(), s, "/tags/v1/link")
	check(t, err)
	check(t, s.Close())
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("the root has %v, %v; want tags only", entries, err)
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

// What another process has removed and made again is flushed again: it may not have
// come to that yet.
func TestDirectoryMadeAgainByAnotherProcess(t *testing.T) {
	root := t.TempDir()
	s, err := Open(root)
	check(t, err)
	defer s.Close()
	for _, key := range []string{"/a/b/f", "/kept", "/a/b/second"} {
		apply(t, s, storage.Change{Key: key, Content: []byte("x")})
	}
	if got := s.durable.above(root + "/a/b"); len(got) != 1 {
		t.Fatalf("unflushed = %v", got)
	}
	check(t, os.RemoveAll(root+"/a"))
	time.Sleep(fineTick) // of the clock by which directories are born
	check(t, os.MkdirAll(root+"/a/b", 0o755))
	apply(t, s, storage.Change{Key: "/a/b/f", Content: []byte("x")})
	for _, dir := range []string{root + "/a/b", root + "/a", root} {
		fd, err := openDir(dir)
		check(t, err)
		if id, known := s.durable.has(dir); !known || id != identify(fd) { // as it was when it was flushed
			t.Errorf("%s was not flushed since it was made again", dir)
		}
		closeFD(fd)
	}
}

// A registry in a container of its own may have all of it.
func TestRootOfTheFileSystem(t *testing.T) {
	s := newDirSet("")
	if got := s.above("/a"); len(got) != 2 || got[1] != "/" {
		t.Errorf("above = %v", got)
	}
}

func TestDirSetForgets(t *testing.T) {
	s := newDirSet("/r")
	flushed := func(dir string) map[string]*flush {
		all := map[string]*flush{}
		for _, dir := range s.above(dir) {
			all[dir] = &flush{dir: dir, put: true}
		}
		return all
	}
	s.remember(flushed("/r/a/b/c"), s.count())
	if got := s.above("/r/a/b/d"); !slices.Equal(got, []string{"/r/a/b/d", "/r/a/b"}) {
		t.Errorf("above = %v, want the new directory and its parent", got)
	}
	s.forget("/r/a/b")
	if got := s.above("/r/a/b"); !slices.Equal(got, []string{"/r/a/b", "/r/a"}) {
		t.Errorf("above = %v after a directory was removed", got)
	}
	late, since := flushed("/r/a/b"), s.count()
	s.forget("/r/a/b")
	s.remember(late, since) // flushed before it was removed
	if _, known := s.has("/r/a/b"); known {
		t.Error("a flush counts for a directory that was created later")
	}
	s.remember(flushed("/r/hot"), s.count())
	for i := range 3 * maxDurable {
		dir := "/r/x/" + strconv.Itoa(i)
		s.remember(map[string]*flush{dir: {dir: dir, put: true}}, s.count())
		if _, known := s.has("/r/hot"); !known {
			t.Fatal("a directory in use is forgotten")
		}
	}
	if n := len(s.now) + len(s.old); n > 2*maxDurable {
		t.Errorf("it holds %d directories", n)
	}
}

// Where directories were removed before they were flushed, the one above them is; a
// root that has vanished is not.
func TestDirectoryThatVanishedIsFlushedAbove(t *testing.T) {
	root := t.TempDir() + "/root"
	s := openRoot(t, root)
	defer s.Close()
	apply(t, s, storage.Change{Key: "/a/f", Content: []byte("x")})
	flush := func() error {
		r := &round{dirs: map[string]*flush{}}
		f := r.need(s, root+"/a/b/c/d", false)
		s.small.flushDirs(r)
		return f.failure()
	}
	check(t, flush())
	check(t, os.Rename(root, root+"-lost"))
	check(t, os.Mkdir(root, 0o755))
	wantErr(t, "a lost mount", flush(), unix.ENOENT) // which writeFault takes for ErrUnavailable
}
