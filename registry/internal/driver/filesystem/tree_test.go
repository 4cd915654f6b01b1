package filesystem

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

func commitLink(t *testing.T, d *Driver, changes ...driver.Change) {
	t.Helper()
	if err := d.Commit(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

func TestModesFollowUmask(t *testing.T) {
	root := t.TempDir()
	d := openRoot(t, root)
	defer d.Close()
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	u, err := d.CreateUpload(t.Context(), "/r/_uploads/1/data")
	if err != nil {
		t.Fatal(err)
	}
	commitLink(t, d, driver.Change{Path: "/r/link", Content: []byte("x")}, driver.Change{Path: "/r/data", Upload: u})
	for name, want := range map[string]os.FileMode{"r": 0o750, "r/_uploads/1": 0o750, "r/link": 0o640, "r/data": 0o640} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestOpenGivesTheFileForSendfile(t *testing.T) {
	d := openRoot(t, t.TempDir())
	defer d.Close()
	commitLink(t, d, driver.Change{Path: "/f", Content: []byte("hello")})
	f, err := d.Open(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file := f.(*File).Unwrap()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		t.Errorf("Unwrap: %v, %v", info, err)
	}
	if strings.Contains(file.Name(), d.root) {
		t.Errorf("the file names the root: %s", file.Name())
	}
}

func TestForeignTree(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/current/link", "x")
	write(t, root+"/elsewhere/f", "x")
	for name, to := range map[string]string{"dir": "../elsewhere", "file": "../elsewhere/f", "nowhere": "../none"} {
		if err := os.Symlink(to, root+"/tags/"+name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root+"/tags/link.5f0c.tmp", "half")
	d := openRoot(t, root)
	defer d.Close()
	var got []driver.Entry
	for e, err := range d.List(t.Context(), "/tags", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []driver.Entry{{Name: "dir", Dir: true}, {Name: "file"}, {Name: "v1", Dir: true}}
	if !slices.Equal(got, want) {
		t.Errorf("List = %v, want %v", got, want)
	}
	if b, err := d.ReadFile(t.Context(), "/tags/dir/f", 10); err != nil || string(b) != "x" {
		t.Errorf("read through a symbolic link: %q, %v", b, err)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestVersionOfAForeignChange(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tags/v1/current/link", "x")
	d := openRoot(t, root)
	defer d.Close()
	if _, ok := d.Version(t.Context(), "/tags"); ok {
		t.Error("a directory that has just changed has a version")
	}
	before := settled(t, d)
	info, err := os.Stat(root + "/tags")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root+"/tags/v2/current/link", "x")
	if err := os.Chtimes(root+"/tags", info.ModTime(), info.ModTime()); err != nil { // as rsync -a does
		t.Fatal(err)
	}
	if v, ok := d.Version(t.Context(), "/tags"); ok && v == before {
		t.Error("the version is that of before the change")
	}
	if settled(t, d) == before {
		t.Error("the version is that of before the change, later too")
	}
}

// settled waits for the version of /tags.
func settled(t *testing.T, d *Driver) string {
	t.Helper()
	for range 200 {
		if v, ok := d.Version(t.Context(), "/tags"); ok {
			return v
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no version after 200 ms; is TMPDIR on a network?")
	return ""
}

func TestLike(t *testing.T) {
	root := t.TempDir()
	d := openRoot(t, root)
	defer d.Close()
	write(t, root+"/foreign/link", "same")
	write(t, root+"/other/link", "else")
	commitLink(t, d, driver.Change{Path: "/src/link", Content: []byte("same")})
	shared := map[string]bool{"/src/link": true, "/foreign/link": true, "/other/link": false, "/none/link": false, "/../link": false}
	for like, want := range shared {
		to := "/to" + strings.ReplaceAll(like, ".", "_")
		commitLink(t, d, driver.Change{Path: to, Content: []byte("same"), Like: like})
		if b, err := d.ReadFile(t.Context(), to, 10); err != nil || string(b) != "same" {
			t.Errorf("like %s: %q, %v", like, b, err)
		}
		if got := links(t, root+to) > 1; got != want {
			t.Errorf("like %s: shared is %v, want %v", like, got, want)
		}
	}
	commitLink(t, d, driver.Change{Path: "/to/src/link", Content: []byte("same"), Like: "/src/link"}) // over itself
	commitLink(t, d, driver.Change{Path: "/src/link", Content: []byte("new one")})
	if b, err := d.ReadFile(t.Context(), "/to/src/link", 10); err != nil || string(b) != "same" {
		t.Errorf("after a change of the other: %q, %v", b, err)
	}
	if err := os.Truncate(root+"/src/link", 0); err != nil { // a crash of distribution 2.8
		t.Fatal(err)
	}
	commitLink(t, d, driver.Change{Path: "/last/link", Content: []byte("new one"), Like: "/src/link"})
	if b, err := d.ReadFile(t.Context(), "/last/link", 10); err != nil || string(b) != "new one" {
		t.Errorf("like a file that was damaged since: %q, %v", b, err)
	}
	wantStaging(t, d, 0)
}

func links(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Nlink) //nolint:unconvert // not on every architecture
}

// TestSpares has one upload use what another left.
func TestSpares(t *testing.T) {
	root := t.TempDir()
	d := openRoot(t, root)
	inodes := map[fileID]bool{}
	for i, note := range []string{"a long note", "short", "short", "a longer note than before"} {
		up := "/r/_uploads/" + string(rune('1'+i))
		if err := d.WriteScratch(t.Context(), up+"/startedat", []byte(note)); err != nil {
			t.Fatal(err)
		}
		u, err := d.CreateUpload(t.Context(), up+"/data")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "/startedat"} {
			id, err := identify(root + up + name)
			if err != nil {
				t.Fatal(err)
			}
			inodes[id] = true
		}
		entries, _ := os.ReadDir(root + up)
		if b, err := os.ReadFile(root + up + "/startedat"); err != nil || string(b) != note || len(entries) != 2 {
			t.Errorf("upload %d has %v and the note %q, %v", i, entries, b, err)
		}
		if i%2 == 0 {
			err = d.Commit(t.Context(), driver.Stage{{Path: "/blob", Upload: u}})
		} else {
			err = u.Cancel(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Discard(t.Context(), up); err != nil {
			t.Fatal(err)
		}
		wantStaging(t, d, 1) // a directory with a note in it
	}
	if len(inodes) != 2 {
		t.Errorf("four uploads had %d inodes for directory and note, want 2", len(inodes))
	}
	d.Close()
	wantStaging(t, d, 0)
}

// TestNoSpare has uploads leave what must not be used again.
func TestNoSpare(t *testing.T) {
	const first, second = "/r/_uploads/1", "/r/_uploads/2"
	tests := []struct {
		name        string
		left, spare func(t *testing.T, dir string) // what others do before and after the directory is discarded
		note        string                         // of the second upload
	}{
		{"a file comes late", nil, func(t *testing.T, dir string) { write(t, dir+"/data", "late") }, "keep"},
		{"a directory was there", func(t *testing.T, dir string) { write(t, dir+"/hashstates/sha256/0", "") }, nil, "keep"},
		{"the note is gone", nil, func(t *testing.T, dir string) { check(t, os.Remove(dir+"/startedat")) }, "keep"},
		{"the note has another name", func(t *testing.T, dir string) { check(t, os.Link(dir+"/startedat", dir+"/../backup")) }, nil, "new!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			d := openRoot(t, root)
			defer d.Close()
			check(t, d.WriteScratch(t.Context(), first+"/startedat", []byte("keep")))
			if tt.left != nil {
				tt.left(t, root+first)
			}
			check(t, d.Discard(t.Context(), first))
			if tt.spare != nil {
				tt.spare(t, d.spares.dirs[0].dir)
			}
			check(t, d.WriteScratch(t.Context(), second+"/startedat", []byte(tt.note)))
			u, err := d.CreateUpload(t.Context(), second+"/data")
			check(t, err)
			defer u.Close()
			entries, _ := os.ReadDir(root + second)
			if b, err := os.ReadFile(root + second + "/startedat"); err != nil || string(b) != tt.note || len(entries) != 2 || u.Size() != 0 {
				t.Errorf("the second upload has %v, the note %q (%v) and %d bytes", entries, b, err, u.Size())
			}
			if b, err := os.ReadFile(root + "/r/_uploads/backup"); err == nil && string(b) != "keep" {
				t.Errorf("the other name reads %q", b)
			}
		})
	}
}

// What an upload received is deleted with it, not kept with its directory.
func TestDiscardedBytesAreDeleted(t *testing.T) {
	d := openRoot(t, t.TempDir())
	defer d.Close()
	check(t, d.WriteScratch(t.Context(), "/r/_uploads/1/startedat", []byte("now")))
	u, err := d.CreateUpload(t.Context(), "/r/_uploads/1/data")
	check(t, err)
	check(t, u.Close())
	check(t, d.Discard(t.Context(), "/r/_uploads/1"))
	wantStaging(t, d, 0)
}

// A long note is remembered no more than an old one of its directory is.
func TestLongNotesAreNotRemembered(t *testing.T) {
	d := openRoot(t, t.TempDir())
	defer d.Close()
	for _, content := range []string{"short", strings.Repeat("long ", 1000)} {
		check(t, d.WriteScratch(t.Context(), "/own/pulls", []byte(content)))
	}
	if n := len(d.spares.noted); n != 0 {
		t.Errorf("%d notes are remembered", n)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/.staging/crashed.lock", "")
	write(t, root+"/.staging/crashed-1.tmp", "half")
	write(t, root+"/.staging/crashed-2.tmp/tags/v1/link", "half")
	write(t, root+"/.staging/unknown-1.tmp", "half")
	alive := openRoot(t, root)
	write(t, alive.tempName(), "of another process")
	d := openRoot(t, root)
	defer d.Close()
	write(t, d.tempName(), "our own")
	if err := d.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	wantLeft(t, d, alive.instance+"-1.tmp", alive.instance+".lock", d.instance+"-1.tmp", d.instance+".lock", "unknown-1.tmp")
	d.sweep(time.Now().Add(2 * abandoned))
	wantLeft(t, d, alive.instance+"-1.tmp", alive.instance+".lock", d.instance+"-1.tmp", d.instance+".lock")
	alive.Close()
	d.sweep(time.Now().Add(2 * abandoned))
	wantLeft(t, d, d.instance+"-1.tmp", d.instance+".lock")
}

func wantLeft(t *testing.T, d *Driver, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(d.staging)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		// The number of a name says how many came before it.
		got = append(got, regexp.MustCompile(`-\w+\.tmp`).ReplaceAllString(e.Name(), "-1.tmp"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the staging directory has %v, want %v", got, want)
	}
}

func TestUploadOfAnotherProcess(t *testing.T) {
	root := t.TempDir()
	one, two := openRoot(t, root), openRoot(t, root)
	defer one.Close()
	defer two.Close()
	u, err := one.CreateUpload(t.Context(), "/r/_uploads/1/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(u, "one "); err != nil {
		t.Fatal(err)
	}
	if _, err := two.OpenUpload(t.Context(), "/r/_uploads/1/data"); err == nil {
		t.Error("an upload that another process is writing can be taken up")
	}
	u.Close()
	u, err = two.OpenUpload(t.Context(), "/r/_uploads/1/data")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if f, err := os.OpenFile(root+"/r/_uploads/1/data", os.O_APPEND|os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	} else if _, err := f.WriteString("late"); err != nil { // distribution does not lock
		t.Fatal(err)
	}
	if err := two.Commit(t.Context(), driver.Stage{{Path: "/blob", Upload: u}}); err == nil {
		t.Error("an upload that somebody else added to can be committed")
	}
}

func TestCommitOfAForeignUploadIsRefused(t *testing.T) {
	one, two := openRoot(t, t.TempDir()), openRoot(t, t.TempDir())
	defer one.Close()
	defer two.Close()
	u, err := one.CreateUpload(t.Context(), "/u")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := two.Commit(t.Context(), driver.Stage{{Path: "/f", Upload: u}}); err == nil {
		t.Error("an upload of another driver is committed")
	}
}

func TestOpenRefusesAFile(t *testing.T) {
	root := t.TempDir() + "/file"
	write(t, root, "x")
	if _, err := Open(root); err == nil {
		t.Error("a file is a root")
	}
}

func TestOpenCreatesTheRoot(t *testing.T) {
	d := openRoot(t, t.TempDir()+"/var/lib/registry")
	defer d.Close()
	commitLink(t, d, driver.Change{Path: "/f", Content: []byte("x")})
}

func TestDirSetForgets(t *testing.T) {
	s := newDirSet("/r")
	s.remember(s.unflushed("/r/a/b/c/link"))
	if got := s.unflushed("/r/a/b/d/link"); !slices.Equal(got, []string{"/r/a/b/d", "/r/a/b"}) {
		t.Errorf("unflushed = %v, want the new directory and its parent", got)
	}
	s.forget("/r/a/b")
	if got := s.unflushed("/r/a/b/link"); !slices.Equal(got, []string{"/r/a/b", "/r/a"}) {
		t.Errorf("unflushed = %v after a directory was created again", got)
	}
	s.remember(s.unflushed("/r/a/b/link"))
	s.forgetTree("/r/a")
	if got := s.unflushed("/r/a/b/link"); !slices.Equal(got, []string{"/r/a/b", "/r/a", "/r"}) {
		t.Errorf("unflushed = %v after the tree was removed", got)
	}
	s.remember(s.unflushed("/r/hot/link"))
	for i := range 3 * maxDurable {
		s.remember([]string{"/r/x/" + string(rune('a'+i%26)) + strings.Repeat("y", i/26)})
		if !s.has("/r/hot") {
			t.Fatal("a directory in use is forgotten")
		}
	}
	if n := len(s.now) + len(s.old); n > 2*maxDurable {
		t.Errorf("it holds %d directories", n)
	}
}

// What is like another change of its stage shares that one's file, unless
// something is there already.
func TestLikeWithinStage(t *testing.T) {
	d := openRoot(t, t.TempDir())
	defer d.Close()
	for _, content := range []string{"first", "later"} {
		stage := driver.Stage{
			{Path: "/revision/link", Content: []byte(content)},
			{Path: "/index/" + content + "/link", Content: []byte(content), Like: "/revision/link"},
			{Path: "/index/link", Content: []byte(content), Like: "/revision/link"},
			{Path: "/other/link", Content: []byte("other"), Like: "/revision/link"},
		}
		if err := d.Commit(t.Context(), stage, driver.Stage{{Path: "/current/link", Content: []byte(content)}}); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"/revision/link": content, "/index/" + content + "/link": content, "/index/link": content, "/other/link": "other", "/current/link": content,
		} {
			if got, err := os.ReadFile(d.root + path); err != nil || string(got) != want {
				t.Errorf("%s = %q, %v; want %q", path, got, err, want)
			}
		}
		if !sameFile(t, d.root+"/revision/link", d.root+"/index/"+content+"/link") || sameFile(t, d.root+"/revision/link", d.root+"/current/link") {
			t.Error("the history shall share the revision's file, the current tag have its own")
		}
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}
