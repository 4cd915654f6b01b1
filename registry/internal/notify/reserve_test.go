package notify

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
	r.tried = time.Time{}
	if r.renew(); r.isSpent() {
		t.Error("it is spent although it was renewed")
	}
	var none *reserve
	if none.renew(); none.spend() || none.isSpent() {
		t.Error("none spends")
	}
}

// The room that was given away on a full disk is for changes, not for pulls.
func TestReserveIsForChanges(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	n.committer.reserve.spent.Store(true)
	n.Pulled(Event{Action: Pull})
	eventually(t, "the pull is lost", func() bool {
		n.endpoints[0].mu.Lock()
		defer n.endpoints[0].mu.Unlock()
		return n.endpoints[0].state.Dropped == 1
	})
	n.push(t, "1")
	if got := waiting(t, dir); got != 1 {
		t.Errorf("%d wait", got)
	}
}
