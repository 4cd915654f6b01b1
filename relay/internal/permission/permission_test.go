package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	other := errors.New("something else")
	if err := Explain(other, "/x"); !errors.Is(err, other) || err.Error() != other.Error() {
		t.Errorf("another error became %v", err)
	}
	if Explain(nil, "/x") != nil {
		t.Error("no error became one")
	}
	read := Explain(&os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, "/x")
	if !errors.Is(read, syscall.EROFS) || !strings.HasPrefix(read.Error(), "/x is on a read-only file system: mount a volume there") {
		t.Errorf("read-only: %v", read)
	}
	missing := filepath.Join(t.TempDir(), "not", "there")
	denied := Explain(&os.PathError{Op: "mkdir", Path: missing, Err: syscall.EACCES}, missing)
	if !errors.Is(denied, fs.ErrPermission) {
		t.Errorf("denied: %v", denied)
	}
	want := "change its owner or mode"
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		want = fmt.Sprintf("chown -R %d:%d %s", uid, gid, filepath.Dir(filepath.Dir(missing)))
	}
	if !strings.Contains(denied.Error(), want) {
		t.Errorf("denied: %v, want %q in it", denied, want)
	}
}

func TestSentenceNamesTheCulprit(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := sentence(filepath.Join(dir, "a", "b"), 65532, 65532)
	want := fmt.Sprintf("%s belongs to uid %d, gid %d with mode 0755, and this process is uid 65532, gid 65532: run `chown -R 65532:65532 %s` as root where it is mounted from", dir, os.Getuid(), os.Getgid(), dir)
	if text != want {
		t.Errorf("is   %s\nwant %s", text, want)
	}
}
