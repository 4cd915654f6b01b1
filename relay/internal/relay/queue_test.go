package relay

import (
	"testing"

	"slipway/relay/internal/store"
)

// TestPageOvertakesTheNews reads a page that holds messages whose commit is announced only after it: each is in the
// line once, and counted once.
func TestPageOvertakesTheNews(t *testing.T) {
	r := newRig(t)
	app := r.app("a", "!a:hs")
	q := r.d.all()[0]
	q.mu.Lock()
	q.more = true
	q.mu.Unlock()
	for range 3 {
		r.send(app.Token, "x")
	}
	entries, _, err := r.store.Pending(ctx, q.id, 0, 10, 1<<20)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	fresh := newQueue(r.d, store.Room{ID: 99})
	depth := r.d.depth.Load()
	fresh.more = true
	fresh.add(entries[0])
	fresh.missed = false // the page is read now
	fresh.accept(entries, false)
	fresh.add(entries[1])
	fresh.add(entries[2])
	if len(fresh.head) != 3 || fresh.more || fresh.waiting != 3 || r.d.depth.Load() != depth+3 {
		t.Errorf("%d entries in the line, more %v, %d waiting, depth %d to %d", len(fresh.head), fresh.more, fresh.waiting, depth, r.d.depth.Load())
	}
}
