package notify

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

func TestReserve(t *testing.T) {
	r := &reserve{path: filepath.Join(t.TempDir(), reserveName)}
	if r.spend() {
		t.Error("it spends what is not there")
	}
	r.renew()
	r.renew()
	if info, err := os.Stat(r.path); err != nil || info.Size() != reserveSize {
		t.Error(info, err)
	}
	if r.isSpent() || !r.spend() || r.spend() || !r.isSpent() {
		t.Error("it is not spent once")
	}
	if r.renew(); r.isSpent() {
		t.Error("it is spent although it was renewed")
	}
	var none *reserve
	if none.renew(); none.spend() || none.isSpent() {
		t.Error("none spends")
	}
}

// The room that was given away on a full disk is for changes, not for pulls, which wait
// in memory.
func TestReserveIsForChanges(t *testing.T) {
	dir := t.TempDir()
	q, err := openQueue(dir, 1<<20, &reserve{path: filepath.Join(dir, "missing", reserveName)}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	pull(t, q, "p1")
	change(t, q, "c1")
	pull(t, q, "p2")
	written := map[string]int{}
	for _, kind := range []string{changesDir, pullsDir} {
		l := &eventLog{dir: filepath.Join(dir, kind)}
		if err := l.scan(); err != nil {
			t.Error(err)
		}
		written[kind] = l.count
	}
	if written[changesDir] != 1 || written[pullsDir] != 0 {
		t.Errorf("written: %v", written)
	}
	q.pulls.reserve = nil // there is room again
	if err := q.pulls.persist(); err != nil {
		t.Fatal(err)
	}
	if got := q.all(); got != "p1 c1 p2" {
		t.Error(got)
	}
}

// On a full disk a change takes the room that was kept.
func TestReserveIsTaken(t *testing.T) {
	dir := t.TempDir()
	spare := &reserve{path: filepath.Join(dir, reserveName)}
	spare.renew()
	q, err := openQueue(dir, 1<<20, spare, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	q.changes.fsync = func(f *os.File) error {
		if !spare.isSpent() {
			return syscall.ENOSPC
		}
		return f.Sync()
	}
	change(t, q, "c1", "c2")
	if !spare.isSpent() || len(q.changes.pending) != 0 || q.all() != "c1 c2" {
		t.Errorf("spent: %v, in memory: %d", spare.isSpent(), len(q.changes.pending))
	}
}
