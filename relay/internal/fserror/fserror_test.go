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
	dir := t.TempDir()
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
