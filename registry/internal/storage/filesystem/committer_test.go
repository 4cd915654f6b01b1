package filesystem

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

// An upload is put whole, also where that need not outlive a power loss.
func TestApply_EphemeralUpload_IsWhole(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	u, err := s.CreateUpload(t.Context(), "/up/1/data", storage.UploadHint{})
	check(t, err)
	_, err = io.WriteString(u, "hello")
	check(t, err)
	apply(t, s, storage.Change{Key: "/a/data", Upload: u, Ephemeral: true})
	got, err := readAll(t.Context(), s, "/a/data")
	check(t, err)
	if string(got) != "hello" {
		t.Errorf("it holds %q", got)
	}
}

// What is no object does not keep one from being put.
func TestApply_AbsentButInTheWay_IsPut(t *testing.T) {
	root := t.TempDir()
	s := openRoot(t, root)
	defer s.Close()
	check(t, os.MkdirAll(root+"/a/directory", 0o777))
	check(t, os.Symlink("nowhere", root+"/a/symlink"))
	apply(t, s, storage.Change{Key: "/a/directory", Content: []byte("x"), If: storage.IfAbsent()})
	apply(t, s, storage.Change{Key: "/a/symlink", Content: []byte("x"), If: storage.IfAbsent()})
}

// panics is a section whose deadline cannot be asked for twice.
type panics struct {
	storage.Section
	asked int
}

func (p *panics) Deadline() time.Time {
	if p.asked++; p.asked > 1 {
		panic("asked again")
	}
	return time.Time{}
}

// A panic fails the commits of its round; others go on.
func TestApply_Panic_LeavesTheStoreUsable(t *testing.T) {
	s := openRoot(t, t.TempDir())
	defer s.Close()
	if err := s.Apply(t.Context(), &panics{}, storage.Stage{{Key: "/a", Content: []byte("x")}}); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- s.Apply(context.WithoutCancel(ctx), nil, storage.Stage{{Key: "/b", Content: []byte("x")}})
	}()
	select {
	case err := <-done:
		check(t, err)
	case <-ctx.Done():
		t.Fatal("nothing is committed any more")
	}
}

// A directory whose flush has failed is not flushed again in the same round: that would succeed.
func TestApply_DirectoryIsNotFlushed_Fails(t *testing.T) {
	root := t.TempDir()
	check(t, os.Mkdir(root+"/d", 0o777))
	strace(t, "dir fails once", root, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2", "-P", root+"/d")
}
