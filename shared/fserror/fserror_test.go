package fserror

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
	dir := somebodyElses(t)
	missing := filepath.Join(dir, "not", "there")
	for path, want := range map[string]string{
		filepath.Join(dir, "file"): fmt.Sprintf("chown -R %d:%d %s", os.Getuid(), os.Getgid(), dir),
		missing:                    fmt.Sprintf("mkdir -p %s && chown %d:%d %[1]s, or mount", filepath.Dir(missing), os.Getuid(), os.Getgid()),
	} {
		denied := Explain(&os.PathError{Op: "open", Path: path, Err: syscall.EACCES}, path)
		if !errors.Is(denied, fs.ErrPermission) || !strings.Contains(denied.Error(), want) {
			t.Errorf("denied: %v, want %q in it", denied, want)
		}
	}
}

// somebodyElses is a directory that does not belong to the user of the test.
func somebodyElses(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/usr"
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	return dir
}
