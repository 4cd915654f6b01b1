package filesystem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

const upKey = "/r/_uploads/1/data"

func create(t *testing.T, s *Store) storage.Upload {
	t.Helper()
	u, err := s.CreateUpload(t.Context(), upKey, storage.UploadHint{})
	check(t, err)
	return u
}

func TestForeignUploadIsRefused(t *testing.T) {
	one, two := openRoot(t, t.TempDir()), openRoot(t, t.TempDir())
	defer one.Close()
	defer two.Close()
	u := create(t, one)
	if err := two.Apply(t.Context(), nil, storage.Stage{{Key: "/f", Upload: u}}); err == nil {
		t.Error("an upload of another store is applied")
	}
}

// Distribution does not lock: what it appends meanwhile must not end in a blob.
func TestUploadThatSomebodyElseAddedTo(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s)
	_, err := io.WriteString(u, "one ")
	check(t, err)
	f, err := os.OpenFile(s.root+upKey, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString("late")
	check(t, errors.Join(err, f.Close()))
	if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}}); !errors.Is(err, storage.ErrUploadTaken) {
		t.Errorf("Apply: %v, want ErrUploadTaken", err)
	}
}

// Of many requests that resume an upload at once, in two processes, one holds it in
// the end; the bytes are those of whole writes.
func TestManyResumeAtOnce(t *testing.T) {
	root := t.TempDir()
	stores := []*Store{openRoot(t, root), openRoot(t, root)}
	u := create(t, stores[0])
	check(t, u.Suspend(t.Context(), nil))
	var applied atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s := stores[i%2]
			u, err := s.ResumeUpload(t.Context(), upKey)
			if err == nil {
				_, err = io.WriteString(u, "four")
			}
			if err == nil {
				err = s.Apply(t.Context(), nil, storage.Stage{{Key: "/blob", Upload: u}})
			}
			if err == nil {
				applied.Add(1)
			} else if !errors.Is(err, storage.ErrUploadTaken) && !errors.Is(err, storage.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := readAll(t.Context(), stores[0], "/blob"); err != nil || applied.Load() != 1 || len(b) == 0 || strings.Trim(string(b), "four") != "" || len(b)%4 != 0 {
		t.Errorf("%d were applied, the blob is %q, %v", applied.Load(), b, err)
	}
	for _, s := range stores {
		wantNoUploads(t, s)
		s.Close()
	}
}

// wantNoUploads checks that no upload is held, and none open.
func wantNoUploads(t *testing.T, s *Store) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holders) != 0 {
		t.Errorf("%d uploads are held", len(s.holders))
	}
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); strings.HasPrefix(to, s.root+"/r/_uploads/") {
			t.Errorf("%s is open", to)
		}
	}
}

// A holder that does not answer, because it is stopped, keeps its upload; who wants
// it is told so in time.
func TestUploadOfAStoppedProcess(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s)
	check(t, u.Suspend(t.Context(), nil))
	fd, err := open(s.root+upKey, unix.O_RDWR)
	check(t, err)
	defer closeFD(fd)
	check(t, flock(fd, unix.LOCK_EX))
	begin := time.Now()
	if _, err := s.ResumeUpload(t.Context(), upKey); !errors.Is(err, storage.ErrUploadTaken) || time.Since(begin) > 2*uploadPatience {
		t.Errorf("ResumeUpload: %v after %v", err, time.Since(begin))
	}
	check(t, flock(fd, unix.LOCK_UN))
	u, err = s.ResumeUpload(t.Context(), upKey)
	check(t, err)
	apply(t, s, storage.Change{Key: "/blob", Upload: u})
	if info, err := os.Stat(s.root + "/blob"); err != nil || info.Mode()&0o111 != 0 {
		t.Errorf("the blob has mode %v, %v", info.Mode(), err)
	}
}

// The memory of states is bounded.
func TestStatesAreBounded(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u := create(t, s).(*upload)
	for i := range 2 * maxStates {
		check(t, s.states.keep(strings.Repeat("k", i+1), u.fd, []byte("state")))
	}
	if n := len(s.states.known); n > maxStates {
		t.Errorf("%d states are kept", n)
	}
	if err := u.Suspend(t.Context(), make([]byte, maxState+1)); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("Suspend of a large state: %v, want ErrTooLarge", err)
	}
}

// One upload uses the directory and note that another left.
func TestSpares(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	inodes := map[uint64]bool{}
	for i, note := range []string{"first", "a long note", "short", "a longer note than before"} {
		up := "/r/_uploads/" + string(rune('1'+i))
		apply(t, s, storage.Change{Key: up + "/startedat", Content: []byte(note), Ephemeral: true})
		u, err := s.CreateUpload(t.Context(), up+"/data", storage.UploadHint{})
		check(t, err)
		for _, name := range []string{"", "/startedat"} {
			var st unix.Stat_t
			check(t, unix.Stat(root+up+name, &st))
			inodes[st.Ino] = true
		}
		entries, _ := os.ReadDir(root + up)
		if b, err := os.ReadFile(root + up + "/startedat"); err != nil || string(b) != note || len(entries) != 2 {
			t.Errorf("upload %d has %v and the note %q, %v", i, entries, b, err)
		}
		if i%2 == 0 {
			apply(t, s, storage.Change{Key: "/blob", Upload: u})
		} else {
			check(t, u.Cancel(t.Context()))
		}
		apply(t, s, storage.Change{Key: up + "/startedat", Delete: true, Ephemeral: true})
		wantStaging(t, s, 1) // a directory with a note in it
	}
	if len(inodes) != 2 {
		t.Errorf("four uploads had %d inodes for directory and note, want 2", len(inodes))
	}
	s.Close()
	wantStaging(t, s, 0)
}

// A note is written again only if it says something else than before, also where it was
// put by other means.
func TestSpareThatSaysTheSame(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	long := time.Now().Add(-time.Hour)
	for i, step := range []struct {
		note   string
		before string // what is put in its place then; or ""
		kept   bool   // the file of the upload before is not written
	}{{"one", "", false}, {"one", "", true}, {"two", "", false}, {"two", "", true}, {"two", "one", true}, {"two", "", false}} {
		key := fmt.Sprint("/r/_uploads/", i, "/startedat")
		apply(t, s, storage.Change{Key: key, Content: []byte(step.note), Ephemeral: true})
		info, err := os.Stat(root + key)
		check(t, err)
		if b, err := os.ReadFile(root + key); err != nil || string(b) != step.note || info.ModTime().Equal(long) != step.kept {
			t.Errorf("%d: the note reads %q (%v) and was written %v", i, b, err, info.ModTime())
		}
		if step.before != "" {
			apply(t, s, storage.Change{Key: key, Content: []byte(step.before)})
		}
		check(t, os.Chtimes(root+key, long, long))
		apply(t, s, storage.Change{Key: key, Delete: true, Ephemeral: true})
	}
}

// Notes with names that do not come again leave room for those that do.
func TestSparesOfManyNames(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	use := func(name string) {
		apply(t, s, storage.Change{Key: name, Content: []byte("x"), Ephemeral: true})
		apply(t, s, storage.Change{Key: name, Delete: true, Ephemeral: true})
	}
	for i := range 3 * maxSpares {
		use(fmt.Sprint("/marks/", i, "/", i))
		use(fmt.Sprint("/up/", i, "/startedat"))
	}
	wantStaging(t, s, maxSpares)
	if _, ok := s.spares.take("/up/startedat", "startedat", "y"); !ok {
		t.Error("there is no spare of the name that comes again")
	}
}

// Of what nobody asks for nothing is kept: a deletion frees its bytes at once.
func TestBytesAreNoSpare(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	apply(t, s, storage.Change{Key: "/up/1/startedat", Content: []byte("x"), Ephemeral: true})
	write(t, root+"/up/2/data", "bytes of an upload")
	apply(t, s, storage.Change{Key: "/up/2/data", Delete: true, Ephemeral: true})
	wantStaging(t, s, 0)
}

// What must not be used again is not.
func TestNoSpare(t *testing.T) {
	const first, second = "/r/_uploads/1", "/r/_uploads/2"
	nothing := func(*testing.T, string) {}
	tests := []struct {
		name        string
		left, spare func(t *testing.T, dir string) // what others do before and after the note is deleted
	}{
		{"a directory was there", func(t *testing.T, dir string) { write(t, dir+"/hashstates/sha256/0", "") }, nothing},
		{"the note is gone", nothing, func(t *testing.T, dir string) { check(t, os.Remove(dir+"/startedat")) }},
		{"the note got another name", nothing, func(t *testing.T, dir string) { check(t, os.Link(dir+"/startedat", dir+"/../backup")) }},
		{"the note had another name", func(t *testing.T, dir string) { check(t, os.Link(dir+"/startedat", dir+"/../backup")) }, nothing},
	}
	for i := range 2 * len(tests) {
		tt, content := tests[i/2], []string{"new", "keep"}[i%2]
		t.Run(tt.name+", "+content, func(t *testing.T) {
			root := t.TempDir()
			s := openRoot(t, root)
			defer s.Close()
			apply(t, s, storage.Change{Key: first + "/startedat", Content: []byte("keep"), Ephemeral: true})
			tt.left(t, root+first)
			apply(t, s, storage.Change{Key: first + "/startedat", Delete: true, Ephemeral: true})
			for _, kept := range s.spares.free {
				tt.spare(t, kept.dir)
			}
			apply(t, s, storage.Change{Key: second + "/startedat", Content: []byte(content), Ephemeral: true})
			entries, _ := os.ReadDir(root + second)
			if b, err := os.ReadFile(root + second + "/startedat"); err != nil || string(b) != content || len(entries) != 1 {
				t.Errorf("the second upload has %v, the note %q (%v)", entries, b, err)
			}
			for _, backup := range []string{root + "/r/_uploads/backup", s.staging + "/backup"} {
				if b, err := os.ReadFile(backup); err == nil && string(b) != "keep" {
					t.Errorf("the other name reads %q", b)
				}
			}
		})
	}
}

// An upload that is being applied does not keep another process waiting for others.
func TestWatchPassesOverApplies(t *testing.T) {
	root := t.TempDir()
	here, there := openRoot(t, root), openRoot(t, root)
	defer here.Close()
	defer there.Close()
	applied, err := here.CreateUpload(t.Context(), "/r/_uploads/1/data", storage.UploadHint{})
	check(t, err)
	_, _, err = applied.(*upload).seal()
	check(t, err)
	defer applied.(*upload).release()
	idle, err := here.CreateUpload(t.Context(), "/r/_uploads/2/data", storage.UploadHint{})
	check(t, err)
	applied.(*upload).ask()
	time.Sleep(3 * lookHeld) // it is looked at
	u, err := there.ResumeUpload(t.Context(), "/r/_uploads/2/data")
	check(t, err)
	_, err = idle.Write([]byte("x"))
	wantErr(t, "the older holder", err, storage.ErrUploadTaken)
	check(t, u.Cancel(t.Context()))
}
