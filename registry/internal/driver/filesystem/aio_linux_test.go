package filesystem

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func kernelAIO(t *testing.T) *aio {
	t.Helper()
	a := startAIO()
	if a == nil && os.Getenv("CI") != "" {
		t.Fatal("the kernel has no AIO")
	}
	if a == nil {
		t.Skip("the kernel has no AIO")
	}
	t.Cleanup(a.stop)
	return a
}

func openFlush(t *testing.T, dir bool) flush {
	t.Helper()
	name := t.TempDir()
	if !dir {
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
	return flush{fd: fd, dir: dir}
}

// Batches at the same time, together more than the kernel takes at once.
func TestAIOFlushes(t *testing.T) {
	a := kernelAIO(t)
	file, dir := openFlush(t, false), openFlush(t, true)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			all := make([]flush, 100)
			for i := range all {
				if all[i] = file; i%2 == 0 {
					all[i] = dir
				}
			}
			a.flush(all)
			for _, f := range all {
				if f.err != nil {
					t.Error(f.err)
				}
			}
		})
	}
	wait.Wait()
	if len(a.pending) > 0 {
		t.Errorf("%d flushes are not accounted for", len(a.pending))
	}
}

// A descriptor that the kernel refuses has its own error, and those around it
// are flushed.
func TestAIORefused(t *testing.T) {
	a := kernelAIO(t)
	all := []flush{openFlush(t, false), {fd: 1 << 20}, openFlush(t, true)}
	a.flush(all)
	if all[0].err != nil || !errors.Is(all[1].err, unix.EBADF) || all[2].err != nil {
		t.Errorf("errors are %v, %v, %v; want EBADF for the second only", all[0].err, all[1].err, all[2].err)
	}
}

// What the kernel says of one flush is the error of that one.
func TestAIOFails(t *testing.T) {
	a := kernelAIO(t)
	all := []flush{{fd: -1}, {fd: -1}}
	b := newBatch(len(all))
	calls := a.prepare(all, b)
	a.finish(ioEvent{data: calls[1].data, res: -int64(unix.EIO)})
	a.finish(ioEvent{data: calls[0].data})
	<-b.done
	if all[0].err != nil || !errors.Is(all[1].err, unix.EIO) {
		t.Errorf("errors are %v and %v, want EIO for the second only", all[0].err, all[1].err)
	}
}
