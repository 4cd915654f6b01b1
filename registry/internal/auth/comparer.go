package auth

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	memoLimit    = 4096
	waitingLimit = 1024             // comparisons that wait
	maxWait      = 30 * time.Second // for a comparison

	// keepKnown is how long credentials that were right come first in the queue.
	keepKnown = 24 * time.Hour

	// bcrypt takes no more of a password. Whatever follows has never counted, in
	// any implementation; `registry htpasswd` refuses to make such a password.
	maxPassword = 72
)

var errBusy = errors.New("too many passwords wait for their comparison")

// comparer compares passwords with bcrypt hashes without letting that eat the
// machine: it remembers outcomes for a while, compares one pair once however
// many ask for it at the same time, and uses at most half of the cores, with a
// bounded queue before them that is fair to those who do not guess.
type comparer struct {
	sums         *summer
	right, wrong *memo
	known        *memo // were right once
	workers      int   // at most
	ended        sync.WaitGroup

	mu      sync.Mutex
	calls   map[sum]*call
	queue   queue
	running int // workers
}

// call is a comparison that one or more requests wait for.
type call struct {
	sum        sum
	user, host string
	known      bool
	password   []byte
	hash       string
	waiting    int // under comparer.mu
	done       chan struct{}
	matches    bool  // valid once done is closed
	err        error // likewise
}

func newComparer(keep time.Duration) *comparer {
	known := keepKnown
	if keep <= 0 {
		known = 0
	}
	return &comparer{
		sums:    newSummer(),
		right:   newMemo(keep, memoLimit),
		wrong:   newMemo(keep, memoLimit),
		known:   newMemo(known, memoLimit),
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
	k := c.join(s, l, addr, hash)
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

// join waits at the call for s, which it starts if there is none.
func (c *comparer) join(s sum, l credentials, addr, hash string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.calls[s]; ok {
		k.waiting++
		return k
	}
	k := &call{
		sum: s, user: string(l.user), host: host(addr), known: c.known.has(s), hash: hash, waiting: 1, done: make(chan struct{}),
		password: append([]byte(nil), l.password[:min(len(l.password), maxPassword)]...),
	}
	c.calls[s] = k
	c.queue.push(k)
	if c.queue.length > waitingLimit {
		if dropped := c.queue.dropOldest(); dropped != nil {
			c.end(dropped, false, errBusy)
		}
	}
	if c.running < c.workers {
		c.running++
		c.ended.Go(c.work)
	}
	return k
}

// work compares until nobody waits.
func (c *comparer) work() {
	for k := c.next(); k != nil; k = c.next() {
		matches := bcrypt.CompareHashAndPassword([]byte(k.hash), k.password) == nil
		if matches {
			c.right.add(k.sum)
			c.known.add(k.sum)
		} else {
			c.wrong.add(k.sum)
		}
		c.mu.Lock()
		c.end(k, matches, nil)
		c.mu.Unlock()
	}
}

// next is the call whose turn it is, nil at the end of the queue. Calls that nobody
// waits for any more end without a comparison.
func (c *comparer) next() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := c.queue.pop(); k != nil; k = c.queue.pop() {
		if k.waiting > 0 {
			return k
		}
		c.end(k, false, errBusy)
	}
	c.running--
	return nil
}

// end answers those who wait for the call; c.mu is held.
func (c *comparer) end(k *call, matches bool, err error) {
	delete(c.calls, k.sum)
	clear(k.password)
	k.matches, k.err = matches, err
	close(k.done)
}
