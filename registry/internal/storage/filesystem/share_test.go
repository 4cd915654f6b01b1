package filesystem

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

func TestLike(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	write(t, root+"/foreign/link", "same")
	check(t, os.Chtimes(root+"/foreign/link", time.Now(), time.Now().Add(-time.Hour)))
	write(t, root+"/touched/link", "same") // by distribution 2.8, which writes in place
	check(t, os.Chtimes(root+"/touched", time.Now(), time.Now().Add(-time.Hour)))
	write(t, root+"/other/link", "else")
	apply(t, s, storage.Change{Key: "/src/link", Content: []byte("same")})
	shared := map[string]bool{"/src/link": true, "/foreign/link": true, "/touched/link": false, "/other/link": false, "/none/link": false, "/../link": false}
	for like, want := range shared {
		to := "/to" + strings.ReplaceAll(like, ".", "_")
		apply(t, s, storage.Change{Key: to, Content: []byte("same"), Like: like})
		if b, err := readAll(t.Context(), s, to); err != nil || string(b) != "same" {
			t.Errorf("like %s: %q, %v", like, b, err)
		}
		if got := links(t, root+to) > 1; got != want {
			t.Errorf("like %s: shared is %v, want %v", like, got, want)
		}
	}
	apply(t, s, storage.Change{Key: "/to/src/link", Content: []byte("same"), Like: "/src/link"}) // over itself
	apply(t, s, storage.Change{Key: "/src/link", Content: []byte("new one")})
	if b, err := readAll(t.Context(), s, "/to/src/link"); err != nil || string(b) != "same" {
		t.Errorf("after a change of the other: %q, %v", b, err)
	}
	check(t, os.Truncate(root+"/src/link", 0)) // a crash of distribution 2.8
	apply(t, s, storage.Change{Key: "/last/link", Content: []byte("new one"), Like: "/src/link"})
	if b, err := readAll(t.Context(), s, "/last/link"); err != nil || string(b) != "new one" {
		t.Errorf("like a file that was damaged since: %q, %v", b, err)
	}
	wantStaging(t, s, 0)
}

func links(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Stat(name, &st))
	return uint64(st.Nlink) //nolint:unconvert // not on every architecture
}

// Keys that share a file have times of their own, however they came to share it.
func TestSharedFilesHaveTimesOfTheirOwn(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	modified := func(key string) time.Time {
		t.Helper()
		info, err := s.Stat(t.Context(), key)
		check(t, err)
		for listed, err := range s.List(t.Context(), key[:len(key)-len("/link")], storage.ListOptions{}) {
			check(t, err)
			if !listed.Modified.Equal(info.Modified) {
				t.Errorf("%s is listed as of %v, Stat says %v", key, listed.Modified, info.Modified)
			}
		}
		return info.Modified
	}
	renew := func(key string) {
		t.Helper()
		apply(t, s, storage.Change{Key: key, Content: []byte("x"), Renew: true})
	}
	pause := func() { time.Sleep(fineTick) }

	apply(t, s, storage.Change{Key: "/a/link", Content: []byte("x")})
	pause()
	renew("/a/link")
	a := modified("/a/link")
	pause()
	apply(t, s, storage.Change{Key: "/b/link", Content: []byte("x"), Like: "/a/link"})
	if links(t, root+"/b/link") != 2 {
		t.Fatal("a link that was renewed is not shared")
	}
	if got := modified("/a/link"); !got.Equal(a) && got.Before(a) {
		t.Errorf("the first is of %v since it is shared, before it was of %v", got, a)
	}
	a = modified("/a/link")
	b := modified("/b/link")
	if !b.After(a) {
		t.Errorf("the second is of %v, the first of %v", b, a)
	}
	pause()
	renew("/a/link")
	if got := modified("/a/link"); !got.After(b) {
		t.Errorf("after its renewal the first is of %v", got)
	}
	if got := modified("/b/link"); !got.Equal(b) {
		t.Errorf("after a renewal of the first the second is of %v, it was of %v", got, b)
	}

	// The one that is left is no older than it was.
	apply(t, s, storage.Change{Key: "/a/link", Delete: true})
	if got := modified("/b/link"); got.Before(b) || links(t, root+"/b/link") != 1 {
		t.Errorf("when the first is gone the second is of %v, it was of %v", got, b)
	}
	apply(t, s, storage.Change{Key: "/c/link", Content: []byte("x"), Like: "/b/link"})
	if got := modified("/b/link"); got.Before(b) {
		t.Errorf("when it is shared again the second is of %v, it was of %v", got, b)
	}
}

// The deletion of one of the keys that share a file changes no version of the others.
func TestDeletionOfASharedFile(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	apply(t, s, storage.Change{Key: "/a/link", Content: []byte("x")}, storage.Change{Key: "/b/link", Content: []byte("x"), Like: "/a/link"})
	if links(t, s.root+"/b/link") != 2 {
		t.Fatal("they do not share a file")
	}
	time.Sleep(2 * fineTick)
	var both storage.Stage
	for _, key := range []string{"/a/link", "/b/link"} {
		info, err := s.Stat(t.Context(), key)
		check(t, err)
		both = append(both, storage.Change{Key: key, Delete: true, If: storage.IfVersion(info.Version)})
	}
	check(t, s.Apply(t.Context(), nil, both[:1], both[1:]))
}

// What is like another change of its stage shares that one's file, unless
// something is there already.
func TestLikeWithinStage(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	for _, content := range []string{"first", "later"} {
		stage := storage.Stage{
			{Key: "/revision/link", Content: []byte(content)},
			{Key: "/index/" + content + "/link", Content: []byte(content), Like: "/revision/link"},
			{Key: "/index/link", Content: []byte(content), Like: "/revision/link"},
			{Key: "/other/link", Content: []byte("other"), Like: "/revision/link"},
		}
		check(t, s.Apply(t.Context(), nil, stage, storage.Stage{{Key: "/current/link", Content: []byte(content)}}))
		for key, want := range map[string]string{
			"/revision/link": content, "/index/" + content + "/link": content, "/index/link": content, "/other/link": "other", "/current/link": content,
		} {
			if got, err := os.ReadFile(s.root + key); err != nil || string(got) != want {
				t.Errorf("%s = %q, %v; want %q", key, got, err, want)
			}
		}
		if !sameFile(t, s.root+"/revision/link", s.root+"/index/"+content+"/link") || sameFile(t, s.root+"/revision/link", s.root+"/current/link") {
			t.Error("the history shall share the revision's file, the current tag have its own")
		}
		revision, err := s.Stat(t.Context(), "/revision/link")
		check(t, err)
		history, err := s.Stat(t.Context(), "/index/"+content+"/link")
		check(t, err)
		if revision.Modified.After(history.Modified) {
			t.Errorf("the revision is of %v, its entry in the history of %v", revision.Modified, history.Modified)
		}
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	check(t, err)
	y, err := os.Stat(b)
	check(t, err)
	return os.SameFile(x, y)
}
