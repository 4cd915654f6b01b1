package store

import (
	"sync"
	"time"
)

// depth is how many entries are on their way. It is counted in the database now and then, and kept up in between. Of a commit that
// overlaps with a count nobody knows whether the count has seen it: the number is then too high rather than too low, and soon
// counted again.
type depth struct {
	shared bool // what other relays add and send is not known here

	counting sync.Mutex // held while somebody counts

	mu      sync.Mutex
	n       int64
	counted time.Time // when the last count ended; zero before the first
	took    time.Duration
	stale   bool  // entries have changed in a way that is not kept up
	blurred bool  // a commit has overlapped with the last count
	running bool  // somebody counts
	tried   bool  // a count has ended
	counts  int64 // that have ended
	added   int64 // while somebody counts
	open    int   // commits that have begun
}

// How long the number is kept up without asking the database.
const (
	countAgain = 10 * time.Second
	countSoon  = time.Second // where it is an estimate
)

// get returns the number, counted now if it has to be.
func (d *depth) get(count func() (int64, error)) (int64, error) {
	d.mu.Lock()
	n, fresh, first := d.n, d.isFresh(), !d.tried
	d.mu.Unlock()
	if fresh {
		return n, nil
	}
	if first {
		d.counting.Lock()
	} else if !d.counting.TryLock() { // somebody counts
		return n, nil
	}
	defer d.counting.Unlock()
	d.mu.Lock()
	if n = d.n; d.isFresh() || first && d.tried { // somebody has counted meanwhile
		d.mu.Unlock()
		return n, nil
	}
	d.running, d.stale, d.added, d.blurred = true, false, 0, d.open > 0
	d.mu.Unlock()
	begin := time.Now()
	n, err := count()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running, d.tried = false, true
	if err != nil {
		d.stale = true
		return 0, err
	}
	d.counts++
	d.blurred = d.blurred || d.open > 0
	d.n, d.counted, d.took = n+d.added, time.Now(), time.Since(begin)
	return d.n, nil
}

// isFresh reports whether the number needs no count. d.mu is held.
func (d *depth) isFresh() bool {
	again := countAgain
	if d.shared || d.blurred {
		again = min(countAgain, max(countSoon, 50*d.took))
	}
	return !d.stale && time.Since(d.counted) < again
}

// begin notes that the commit of a batch begins; end or abort follows.
func (d *depth) begin(b *batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	b.counts = d.counts
	d.blurred = d.blurred || d.running
}

// abort notes that a commit has failed.
func (d *depth) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
}

// end keeps up the number with what was committed.
func (d *depth) end(b *batch) {
	var added, gone int64
	for _, r := range b.requests {
		for _, a := range r.accept {
			if a.stored() {
				added++
			}
		}
	}
	for _, o := range b.outcomes {
		if !o.Entry.State.Pending() && !o.dropped {
			gone++
		}
		if o.FollowUp != nil {
			added++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.n += added
	if d.running {
		d.added += added
	}
	if b.counts == d.counts { // else a count has perhaps left out already what is gone
		d.n -= gone
	}
	for _, tx := range b.txs {
		d.stale = d.stale || len(tx.changes) > 0
	}
}
