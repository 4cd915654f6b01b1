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
	waitingLimit = 64 // comparisons under way or waiting, for each slot
	perNameLimit = 4  // different passwords of one name under way or waiting
	perHostLimit = 16 // different credentials from one address under way or waiting

	// bcrypt takes no more of a password. Whatever follows has never counted, in
	// any implementation; `registry htpasswd` refuses to make such a password.
	maxPassword = 72
)

var errBusy = errors.New("too many passwords wait for their comparison")

// comparer compares passwords with bcrypt hashes without letting that eat the
// machine: it remembers outcomes for a while, compares one pair once however
// many ask for it at the same time, and uses at most half of the cores with a
// bounded queue before them. One name, or one address, can fill a part of the
// queue only, so guessing does not keep the others out.
type comparer struct {
	sums         *summer
	right, wrong *memo
	slots        chan struct{}
	ended        sync.WaitGroup

	mu     sync.Mutex
	calls  map[sum]*call
	byName map[string]int
	byHost map[string]int
}

// call is a comparison that one or more requests wait for.
type call struct {
	sum        sum
	user, host string
	waiting    int // under comparer.mu
	done       chan struct{}
	matches    bool // valid once done is closed
}

func newComparer(keep time.Duration) *comparer {
	return &comparer{
		sums:   newSummer(),
		right:  newMemo(keep, memoLimit),
		wrong:  newMemo(keep, memoLimit),
		slots:  make(chan struct{}, max(1, runtime.NumCPU()/2)),
		calls:  map[sum]*call{},
		byName: map[string]int{},
		byHost: map[string]int{},
	}
}

// compare says whether the password belongs to the hash, and whether that was
// found out just now. The error is errBusy or the context's.
func (c *comparer) compare(ctx context.Context, l credentials, host, hash string) (matches, fresh bool, err error) {
	s := c.sums.sum(l.user, l.password, hash)
	if c.right.has(s) {
		return true, false, nil
	}
	if c.wrong.has(s) {
		return false, false, nil
	}
	k, err := c.join(s, l, host, hash)
	if err != nil {
		return false, false, err
	}
	select {
	case <-k.done:
		return k.matches, true, nil
	case <-ctx.Done():
		c.leave(k)
		return false, false, ctx.Err()
	}
}

// join waits at the call for s, which it starts if there is none.
func (c *comparer) join(s sum, l credentials, host, hash string) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.calls[s]; ok {
		k.waiting++
		return k, nil
	}
	k := &call{sum: s, user: string(l.user), host: host, waiting: 1, done: make(chan struct{})}
	if len(c.calls) >= waitingLimit*cap(c.slots) || c.byName[k.user] >= perNameLimit || c.byHost[k.host] >= perHostLimit {
		return nil, errBusy
	}
	c.calls[s] = k
	c.byName[k.user]++
	c.byHost[k.host]++
	password := append([]byte(nil), l.password[:min(len(l.password), maxPassword)]...)
	c.ended.Go(func() { c.run(k, password, hash) })
	return k, nil
}

func (c *comparer) leave(k *call) {
	c.mu.Lock()
	k.waiting--
	c.mu.Unlock()
}

// run compares when a slot is free, unless everybody has left by then.
func (c *comparer) run(k *call, password []byte, hash string) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	if c.abandoned(k) {
		return
	}
	k.matches = bcrypt.CompareHashAndPassword([]byte(hash), password) == nil
	clear(password)
	if k.matches {
		c.right.add(k.sum)
	} else {
		c.wrong.add(k.sum)
	}
	c.mu.Lock()
	c.forget(k)
	c.mu.Unlock()
	close(k.done)
}

func (c *comparer) abandoned(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.waiting > 0 {
		return false
	}
	c.forget(k)
	return true
}

// forget ends a call; c.mu is held.
func (c *comparer) forget(k *call) {
	delete(c.calls, k.sum)
	countDown(c.byName, k.user)
	countDown(c.byHost, k.host)
}

func countDown(m map[string]int, key string) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}
