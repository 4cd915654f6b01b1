package auth

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	memoLimit    = 4096
	waitingLimit = 1024             // comparisons that wait
	maxWait      = 30 * time.Second // for a comparison

	// keepKnown is how long credentials that were right come first in the queue.
	keepKnown = 24 * time.Hour

	// After a comparison for a suspect there is a pause before the next one: that long for
	// each request that was let in meanwhile, and at most that many times as long as the
	// comparison. So guesses cost others a third of a core at most.
	pausePerRequest = time.Millisecond
	maxPause        = 2

	// bcrypt takes no more of a password. Whatever follows has never counted, in
	// any implementation; `registry htpasswd` refuses to make such a password.
	maxPassword = 72
)

var errBusy = errors.New("too many passwords wait for their comparison")

// comparer compares passwords with bcrypt hashes without letting that eat the
// machine: it remembers outcomes for a while, compares one pair once however
// many ask for it at the same time, and uses at most half of the cores, with a
// bounded queue before them in which those who probably guess come last.
type comparer struct {
	brake        *brake
	sums         *summer
	right, wrong *memo
	known        *memo // were right once; it only says who comes first
	workers      int   // at most
	ended        sync.WaitGroup
	served       atomic.Int64 // requests that were let in, with a password or otherwise

	mu        sync.Mutex
	calls     map[sum]*call
	queue     queue
	running   int       // workers
	guessing  bool      // a password of a suspect is being compared
	suspectAt time.Time // when the next one may be
	waking    bool      // a timer starts a worker then
	closed    bool
}

// call is a comparison that one or more requests wait for.
type call struct {
	sum        sum
	user, host string
	known      bool
	suspect    bool // it is probably a guess
	password   []byte
	hash       string
	waiting    int // under comparer.mu
	done       chan struct{}
	matches    bool  // valid once done is closed
	err        error // likewise
}

func newComparer(keep time.Duration, b *brake) *comparer {
	return &comparer{
		brake:   b,
		sums:    newSummer(),
		right:   newMemo(keep, memoLimit),
		wrong:   newMemo(keep, memoLimit),
		known:   newMemo(keepKnown, memoLimit),
		workers: max(1, runtime.NumCPU()/2),
		calls:   map[sum]*call{},
	}
}

// compare says whether the password belongs to the hash, and whether that was
// found out just now. The error is errBusy or the context's.
func (c *comparer) compare(ctx context.Context, l credentials, addr, hash string) (matches, fresh bool, err error) {
	s := c.sums.sum(l.user, l.password, hash)
	if c.right.has(s) {
		return true, false, nil
	}
	if c.wrong.has(s) {
		return false, false, nil
	}
	k := c.join(c.newCall(s, l, addr, hash))
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case <-k.done:
		return k.matches, true, k.err
	case <-timeout.C:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	k.waiting--
	c.mu.Unlock()
	return false, false, err
}

func (c *comparer) newCall(s sum, l credentials, addr, hash string) *call {
	k := &call{
		sum: s, user: string(l.user), host: host(addr), known: c.known.has(s), hash: hash, done: make(chan struct{}),
		password: append([]byte(nil), l.password[:min(len(l.password), maxPassword)]...),
	}
	k.suspect = !k.known && c.brake.suspects(k.host, k.user, time.Now())
	return k
}

// join waits for the call, or for one under way that compares the same.
func (c *comparer) join(k *call) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if same, ok := c.calls[k.sum]; ok {
		same.waiting++
		return same
	}
	k.waiting = 1
	c.calls[k.sum] = k
	c.queue.push(k)
	if c.queue.length() > waitingLimit {
		if dropped := c.queue.dropOldest(); dropped != nil {
			c.end(dropped, false, errBusy)
		}
	}
	c.start()
	return k
}

// start starts a worker if one more may run; c.mu is held.
func (c *comparer) start() {
	if c.running < c.workers && !c.closed {
		c.running++
		c.ended.Go(c.work)
	}
}

// close waits for the comparisons in progress.
func (c *comparer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.ended.Wait()
}

// work compares until nobody waits.
func (c *comparer) work() {
	for k := c.next(); k != nil; k = c.next() {
		began, served := time.Now(), c.served.Load()
		matches := bcrypt.CompareHashAndPassword([]byte(k.hash), k.password) == nil
		if matches {
			c.right.add(k.sum)
			c.known.add(k.sum)
		} else {
			c.wrong.add(k.sum)
		}
		c.mu.Lock()
		if k.suspect {
			pause := min(maxPause*time.Since(began), time.Duration(c.served.Load()-served)*pausePerRequest)
			c.guessing, c.suspectAt = false, time.Now().Add(pause)
		}
		c.end(k, matches, nil)
		c.mu.Unlock()
	}
}

// next is the call whose turn it is, nil if there is none now. Calls that nobody waits
// for any more end without a comparison.
func (c *comparer) next() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		pause := time.Until(c.suspectAt)
		k := c.queue.pop(pause <= 0 && !c.guessing)
		switch {
		case k == nil:
			c.running--
			if c.queue.length() > 0 && !c.guessing { // else whoever compares it goes on
				c.wake(pause)
			}
			return nil
		case k.waiting > 0:
			c.guessing = c.guessing || k.suspect
			return k
		}
		c.end(k, false, errBusy)
	}
}

// wake starts a worker when suspects may be compared again; c.mu is held.
func (c *comparer) wake(after time.Duration) {
	if c.waking {
		return
	}
	c.waking = true
	time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waking = false
		c.start()
	})
}

// end answers those who wait for the call; c.mu is held.
func (c *comparer) end(k *call, matches bool, err error) {
	delete(c.calls, k.sum)
	clear(k.password)
	k.matches, k.err = matches, err
	close(k.done)
}
