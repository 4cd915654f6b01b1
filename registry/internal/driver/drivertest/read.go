package drivertest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/driver"
)

func testName(t *testing.T, d driver.Driver) {
	if d.Name() == "" {
		t.Error("the driver has no name")
	}
}

func testCheck(t *testing.T, d driver.Driver) {
	put(t, d, "/a", "x")
	for _, write := range []bool{false, true, true} {
		if err := d.Check(t.Context(), write); err != nil {
			t.Errorf("Check(%v): %v", write, err)
		}
	}
	u := create(t, d, "/up/1/data")
	write(t, u, "x")
	if err := d.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	wantRead(t, u, 0, "x")
	wantContent(t, d, "/a", "x")
}

func testInvalidPaths(t *testing.T, d driver.Driver) {
	put(t, d, "/a/b", "x")
	for _, path := range []string{
		"", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/..", "/a/..", "/a/../a/b", "/a/./b", "/a/.b", "/a/b\x00", "/a b", "/a/b\n",
		"/a\\b", "/a%2fb", "/ä", "/" + strings.Repeat("a/", 5000) + "b",
	} {
		for name, err := range useAll(t, d, path) {
			wantError(t, name+" of an invalid path", err, driver.ErrInvalidPath)
		}
	}
	wantContent(t, d, "/a/b", "x")
}

// useAll calls every method with the path.
func useAll(t *testing.T, d driver.Driver, path string) map[string]error {
	ctx, errs := t.Context(), map[string]error{}
	_, errs["Stat"] = d.Stat(ctx, path)
	_, _, errs["Find"] = d.Find(ctx, path, "/x")
	_, _, errs["Find second"] = d.Find(ctx, "/x", path)
	_, errs["ReadFile"] = d.ReadFile(ctx, path, 10)
	_, errs["Open"] = d.Open(ctx, path)
	errs["List"] = nil
	for _, err := range d.List(ctx, path, "") {
		errs["List"] = err
	}
	errs["Commit"] = d.Commit(ctx, driver.Stage{{Path: path, Content: []byte("evil")}})
	errs["Commit to remove"] = d.Commit(ctx, driver.Stage{{Path: path, Remove: true}})
	errs["Remove"] = d.Remove(ctx, path)
	errs["WriteScratch"] = d.WriteScratch(ctx, path, []byte("evil"))
	errs["Discard"] = d.Discard(ctx, path)
	_, errs["CreateUpload"] = d.CreateUpload(ctx, path)
	_, errs["OpenUpload"] = d.OpenUpload(ctx, path)
	_, errs["UploadSize"] = d.UploadSize(ctx, path)
	if _, ok := d.Version(ctx, path); ok {
		errs["Version"] = nil
	}
	return errs
}

func testStat(t *testing.T, d driver.Driver) {
	before := time.Now().Add(-time.Minute)
	put(t, d, "/a/b/c", "hello")
	info, err := d.Stat(t.Context(), "/a/b/c")
	if err != nil || info.Size != 5 || info.Dir {
		t.Errorf("Stat of an object = %+v, %v", info, err)
	}
	if !info.Changed.IsZero() && (info.Changed.Before(before) || info.Changed.After(time.Now().Add(time.Minute))) {
		t.Errorf("Changed = %v, want now or nothing", info.Changed)
	}
	for _, dir := range []string{"/a", "/a/b"} {
		if info, err := d.Stat(t.Context(), dir); err != nil || !info.Dir || info.Size != 0 {
			t.Errorf("Stat(%s) = %+v, %v; want a directory", dir, info, err)
		}
	}
	for _, path := range []string{"/x", "/a/x", "/a/b/c/d", "/a/b/" + strings.Repeat("x", 200)} {
		_, err := d.Stat(t.Context(), path)
		wantError(t, "Stat("+path+")", err, driver.ErrNotExist)
	}
}

func testFind(t *testing.T, d driver.Driver) {
	put(t, d, "/a/b", "first")
	put(t, d, "/aside/c", "the second")
	for _, tt := range []struct {
		first, second, at string
		size              int64
	}{
		{"/a/b", "/aside/b", "/a/b", 5},
		{"/a/b", "/aside/c", "/a/b", 5},
		{"/a/c", "/aside/c", "/aside/c", 10},
	} {
		info, at, err := d.Find(t.Context(), tt.first, tt.second)
		if err != nil || at != tt.at || info.Size != tt.size {
			t.Errorf("Find(%s, %s) = %+v at %s, %v; want %d bytes at %s", tt.first, tt.second, info, at, err, tt.size, tt.at)
		}
	}
	_, _, err := d.Find(t.Context(), "/a/x", "/aside/x")
	wantError(t, "Find of nothing", err, driver.ErrNotExist)
}

func testReadFile(t *testing.T, d driver.Driver) {
	for _, size := range []int{0, 1, 71, 1023, 1024, 1025, 4096, 100_000, 4 << 20} {
		want := pattern(size)
		put(t, d, "/a/f", want)
		for _, limit := range []int{size, size + 1, size + 10_000} {
			if got, err := d.ReadFile(t.Context(), "/a/f", int64(limit)); err != nil || string(got) != want {
				t.Errorf("ReadFile of %d bytes, at most %d: %d bytes, %v", size, limit, len(got), err)
			}
		}
		if size > 0 {
			_, err := d.ReadFile(t.Context(), "/a/f", int64(size-1))
			wantError(t, "ReadFile of one byte more than asked for", err, driver.ErrTooLarge)
		}
	}
	wantAbsent(t, d, "/a/g")
	wantAbsent(t, d, "/a/f/g")
	wantAbsent(t, d, "/a")
	got, _ := d.ReadFile(t.Context(), "/a/f", 4<<20)
	got[0] ^= 0xff
	if again, _ := d.ReadFile(t.Context(), "/a/f", 4<<20); again[0] == got[0] {
		t.Error("what ReadFile returns is the store's own memory")
	}
}

// pattern is size bytes in which each block of 4 KiB has its number.
func pattern(size int) string {
	block := strings.Repeat("0123456789abcdef", 256)
	b := make([]byte, 0, size+len(block))
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%016d", i)
		b = append(b, block[16:]...)
	}
	return string(b[:size])
}

func testOpen(t *testing.T, d driver.Driver) {
	put(t, d, "/f", "0123456789")
	f, err := d.Open(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Size() != 10 {
		t.Errorf("Size = %d, want 10", f.Size())
	}
	if n, err := f.Seek(4, io.SeekStart); n != 4 || err != nil {
		t.Errorf("Seek = %d, %v", n, err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(f, b); err != nil || string(b) != "456" {
		t.Errorf("read %q, %v behind Seek", b, err)
	}
	if _, err := f.ReadAt(b, 1); err != nil || string(b) != "123" {
		t.Errorf("ReadAt read %q, %v", b, err)
	}
	if rest, err := io.ReadAll(f); err != nil || string(rest) != "789" {
		t.Errorf("read %q, %v to the end", rest, err)
	}
	if n, err := f.Seek(0, io.SeekEnd); n != 10 || err != nil {
		t.Errorf("Seek to the end = %d, %v", n, err)
	}
	if _, err := f.ReadAt(b, 8); !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt over the end: %v, want EOF", err)
	}
}

func testOpenFileOutlivesItsPath(t *testing.T, d driver.Driver) {
	put(t, d, "/f", "first")
	f, err := d.Open(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put(t, d, "/f", "second one")
	if err := d.Remove(t.Context(), "/f"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != "first" {
		t.Errorf("read %q, %v; want the bytes of when it was opened", got, err)
	}
}

func testList(t *testing.T, d driver.Driver) {
	for _, name := range []string{"b", "B", "a/x/y", "a-b", "a.b", "a_b", "0", "v1.tmp/link", "link.0b5e.tmp", "tmp", "z"} {
		put(t, d, "/dir/"+name, "x")
	}
	put(t, d, "/dirt", "x")
	want := []string{"0", "B", "a", "a-b", "a.b", "a_b", "b", "tmp", "v1.tmp", "z"}
	if got := names(t, d, "/dir", ""); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
	for e, err := range d.List(t.Context(), "/dir", "") {
		if wantDir := e.Name == "a" || e.Name == "v1.tmp"; err != nil || e.Dir != wantDir {
			t.Errorf("entry %+v, %v; want Dir to be %v", e, err, wantDir)
		}
	}
	for _, err := range d.List(t.Context(), "/dir", "") {
		if err != nil {
			t.Error(err)
		}
		break // which List has to bear
	}
}

func testListAfter(t *testing.T, d driver.Driver) {
	var all []string
	for i := range 300 {
		name := "tag-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('0'+i%10))
		put(t, d, "/tags/"+name+"/link", "x")
		all = append(all, name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, after := range []string{"", "a", all[0], all[0] + "!", all[100], all[len(all)-1], "zzz"} {
		i, found := slices.BinarySearch(all, after)
		if found {
			i++
		}
		if got := names(t, d, "/tags", after); !slices.Equal(got, all[i:]) {
			t.Errorf("List after %q has %d names, want %d", after, len(got), len(all)-i)
		}
	}
}

func testListErrors(t *testing.T, d driver.Driver) {
	put(t, d, "/a/b", "x")
	for _, dir := range []string{"/x", "/a/x", "/a/b", "/a/b/c"} {
		calls := 0
		for e, err := range d.List(t.Context(), dir, "") {
			calls++
			wantError(t, "List("+dir+") = "+e.Name, err, driver.ErrNotExist)
		}
		if calls != 1 {
			t.Errorf("List(%s) yields %d times, want one error", dir, calls)
		}
	}
}

func testVersion(t *testing.T, d driver.Driver) {
	if _, ok := d.Version(t.Context(), "/dir"); ok {
		t.Error("what is not there has a version")
	}
	put(t, d, "/dir/a/x", "x")
	put(t, d, "/dir/b", "x")
	changes := []struct {
		what, path string
		change     driver.Change
	}{
		{"a child has appeared", "/dir", driver.Change{Path: "/dir/c", Content: []byte("x")}},
		{"a child has vanished", "/dir", driver.Change{Path: "/dir/a", Remove: true}},
		{"the content is another", "/dir/b", driver.Change{Path: "/dir/b", Content: []byte("y")}},
		{"the content is another again", "/dir/b", driver.Change{Path: "/dir/b", Content: []byte("x")}},
	}
	seen := map[string]bool{}
	for _, c := range changes {
		before, ok := version(t, d, c.path)
		if !ok {
			return // the storage cannot tell
		}
		seen[before] = true
		if again, ok := d.Version(t.Context(), c.path); !ok || again != before {
			t.Error("the version changes by itself")
		}
		commit(t, d, driver.Stage{c.change})
		if after, ok := d.Version(t.Context(), c.path); ok && seen[after] {
			t.Errorf("the version is one of before when %s", c.what)
		}
	}
}

// version waits until the storage can tell.
func version(t *testing.T, d driver.Driver, dir string) (string, bool) {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if v, ok := d.Version(t.Context(), dir); ok {
			return v, true
		}
	}
	return "", false
}
