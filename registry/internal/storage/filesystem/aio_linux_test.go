package filesystem

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/shared/programtest"
)

func kernelAIO(t *testing.T) *aio {
	t.Helper()
	a := startAIO()
	if a == nil {
		programtest.Skip(t, "the kernel has no AIO, or its seccomp profile forbids io_setup")
	}
	t.Cleanup(a.stop)
	return a
}

func openFlush(t *testing.T, dir string) *flush {
	t.Helper()
	name := t.TempDir()
	if dir == "" {
		name = filepath.Join(name, "file")
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFD(fd) })
	return &flush{fd: fd, dir: dir}
}

// More than the kernel takes at once, again and again.
func TestAIOFlushes(t *testing.T) {
	a := kernelAIO(t)
	file, dir := openFlush(t, ""), openFlush(t, "dir")
	for _, n := range []int{1, 2, 300, 7} {
		all := make([]*flush, n)
		for i := range all {
			one := *file
			if i%2 == 0 {
				one = *dir
			}
			all[i] = &one
		}
		a.flush(all)
		for i, f := range all {
			if f.err != nil {
				t.Errorf("flush %d of %d: %v", i, n, f.err)
			}
		}
	}
}

// A descriptor that the kernel refuses has its own error, and those around it
// are flushed.
func TestAIORefused(t *testing.T) {
	a := kernelAIO(t)
	all := []*flush{openFlush(t, ""), {fd: 1 << 20}, openFlush(t, "dir")}
	a.flush(all)
	if all[0].err != nil || !errors.Is(all[1].err, unix.EBADF) || all[2].err != nil {
		t.Errorf("errors are %v, %v, %v; want EBADF for the second only", all[0].err, all[1].err, all[2].err)
	}
}
