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
	dir := t.TempDir()
	missing := filepath.Join(dir, "not", "there")
	denied := Explain(&os.PathError{Op: "mkdir", Path: missing, Err: syscall.EACCES}, missing)
	if !errors.Is(denied, fs.ErrPermission) {
		t.Errorf("denied: %v", denied)
	}
	if want := fmt.Sprintf("chown -R %d:%d %s", os.Getuid(), os.Getgid(), dir); !strings.Contains(denied.Error(), want) {
		t.Errorf("denied: %v, want %q in it", denied, want)
	}
}
