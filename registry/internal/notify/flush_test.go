package notify

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

// While the queue cannot be written, the first changes fail and are kept, the next
// are refused before they are made; all that happened is told in the end.
func TestQueueCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it arrived", func() bool { return r.got() == "1" })
	changes := n.endpoints[0].queue.changes
	moved := changes.dir + ".moved"
	if err := os.Rename(changes.dir, moved); err != nil {
		t.Fatal(err)
	}
	changes.mu.Lock()
	changes.closeTail() // the next needs a new file
	changes.mu.Unlock()
	r.stuck.Store(true)
	if err := n.Changed(Event{Action: Push, Target: Target{Tag: "2"}}); err == nil {
		t.Fatal("it is taken without a place")
	}
	if n.Ready() == nil {
		t.Error("it is ready")
	}
	if err := os.Rename(moved, changes.dir); err != nil {
		t.Fatal(err)
	}
	r.stuck.Store(false)
	eventually(t, "it is ready again", func() bool { return n.Ready() == nil })
	n.push(t, "3")
	eventually(t, "all arrived", func() bool { return r.got() == "1 2 3" })
	if n.logs.FilterMessageSnippet("cannot be queued").Len() != 1 || n.logs.FilterMessageSnippet("can be queued again").Len() != 1 {
		t.Errorf("log: %v", n.logs.All())
	}
}

// After a failed flush nothing is taken until one has succeeded.
func TestFlushFails(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	n := open(t, t.TempDir(), r.endpoint("r"))
	q := n.endpoints[0].queue
	var broken atomic.Bool
	broken.Store(true)
	q.mu.Lock()
	q.changes.fsync = func(f *os.File) error {
		if broken.Load() {
			return syscall.EIO
		}
		return f.Sync()
	}
	q.mu.Unlock()
	r.stuck.Store(true)
	if err := n.Changed(Event{Action: Push, Target: Target{Tag: "1"}}); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	time.Sleep(2 * maintainEvery)
	if n.Ready() == nil {
		t.Error("it is ready without proof")
	}
	broken.Store(false)
	r.stuck.Store(false)
	eventually(t, "it is ready", func() bool { return n.Ready() == nil })
	n.push(t, "2")
	eventually(t, "both arrived", func() bool { return r.got() == "1 2" })
	if got := n.logs.FilterMessageSnippet("cannot be queued").Len(); got != 1 {
		t.Errorf("it is said %d times", got)
	}
}

// Many at the same time share their flushes, and all are there afterwards.
func TestGroupCommit(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			for j := range 10 {
				if err := n.Changed(Event{Action: Push, Target: Target{Tag: oci.Tag(fmt.Sprintf("%d-%d", i, j))}}); err != nil {
					t.Error(err)
				}
				n.Pulled(Event{Action: Pull})
			}
		})
	}
	group.Wait()
	eventually(t, "all wait", func() bool { return waiting(t, dir) == 640 })
	n.kill(t)
	if got := waiting(t, dir); got != 640 {
		t.Errorf("%d are left", got)
	}
}
