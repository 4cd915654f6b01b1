package fileerror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slipway/shared/programtest"
)

func TestExplain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nothing")
	_, err := os.Open(path)
	if got := Explain(path, err); got.Error() != path+" does not exist: make or mount it, or name another" || !errors.Is(got, fs.ErrNotExist) {
		t.Errorf("got %v", got)
	}
	if got := Explain(path, syscall.EIO); got != syscall.EIO { //nolint:errorlint // the very same
		t.Errorf("got %v", got)
	}
}

func TestExplainWrite(t *testing.T) {
	other := errors.New("something else")
	if err := Explain("/x", other); !errors.Is(err, other) || err.Error() != other.Error() {
		t.Errorf("another error became %v", err)
	}
	if Explain("/x", nil) != nil {
		t.Error("no error became one")
	}
	read := Explain("/x", &os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS})
	if !errors.Is(read, syscall.EROFS) || !strings.HasPrefix(read.Error(), "/x is on a read-only file system: mount a volume there") {
		t.Errorf("read-only: %v", read)
	}
	dir := somebodyElses(t)
	missing := filepath.Join(dir, "not", "there")
	for path, want := range map[string]string{
		filepath.Join(dir, "file"): fmt.Sprintf("chown -R %d:%d %s", os.Getuid(), os.Getgid(), dir),
		missing:                    fmt.Sprintf("mkdir -p %s && chown %d:%d %[1]s, or mount", filepath.Dir(missing), os.Getuid(), os.Getgid()),
	} {
		denied := Explain(path, &os.PathError{Op: "open", Path: path, Err: syscall.EACCES})
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

// What belongs to somebody else is named with its owner and the way out. The
// question is asked by a process that is not root.
func TestExplainOwner(t *testing.T) {
	if path := os.Getenv("EXPLAINED_PATH"); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			f.Close()
			t.Fatal(path + " can be opened")
		}
		os.Stdout.WriteString("<" + Explain(path, err).Error() + ">")
		return
	}
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can make a file that belongs to somebody else")
	}
	dir, err := os.MkdirTemp("", "explained") // which everybody may enter, unlike that of the test
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, closed, own, hidden := filepath.Join(dir, "file"), filepath.Join(dir, "closed"), filepath.Join(dir, "own"), filepath.Join(dir, "hidden")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(file, nil, 0o600), os.Mkdir(closed, 0o700), os.WriteFile(closed+"/file", nil, 0o644),
		os.WriteFile(own, nil, 0o400), os.Chown(own, 65532, 65532), os.WriteFile(hidden, nil, 0), os.Chown(hidden, 65532, 65532),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "test")
	content, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:             "<" + file + " belongs to uid 0 (mode 0600), and this runs as uid 65532, which may not use it: chown 65532:65532 " + file + ">",
		closed + "/file": "<" + closed + "/file is out of reach: " + closed + " belongs to uid 0 (mode 0700), and this runs as uid 65532, which may not enter it>",
		own:              "<" + own + " has mode 0400, which keeps its owner, uid 65532, from using it: chmod u+w " + own + ">",
		hidden:           "<" + hidden + " has mode 0000, which keeps its owner, uid 65532, from using it: chmod u+rw " + hidden + ">",
	} {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestExplainOwner$")
		cmd.Env, cmd.Dir = []string{"EXPLAINED_PATH=" + path}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s, want %s", strconv.Quote(path), err, out, want)
		}
	}
}
