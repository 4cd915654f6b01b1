package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// lockHeld returns the lease on a lock, the zero one if nobody holds it, or nobody
// who can still have a request under way.
func (p *Process) lockHeld(name string) (lease, error) {
	held, _, err := p.lock(name)
	if err != nil || time.Now().After(held.Until.Add(p.b.o.MaxLate)) {
		return lease{}, err
	}
	return held, nil
}

func (p *Process) lock(name string) (held lease, version string, err error) {
	o, err := p.get("GET", lockDir+name)
	if errors.Is(err, errMissing) {
		return lease{}, "", nil
	}
	if err != nil {
		return lease{}, "", err
	}
	err = json.Unmarshal(o.content, &held)
	return held, o.version, err
}

// Lock implements storage.Coordinator. A lock that was released stays as an object
// that nobody holds, for not every service deletes by condition.
func (l *leases) Lock(_ context.Context, name string) (storage.Lease, error) {
	held, version, err := l.p.lock(name)
	if err != nil {
		return nil, err
	}
	if held.Owner != "" && !time.Now().After(held.Until.Add(l.p.b.o.MaxLate)) {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrBusy)
	}
	h := &hold{p: l.p, key: lockDir + name, owner: rand.Text(), lost: make(chan struct{}), cond: condition{absent: version == "", version: version}}
	if err := h.renew(); err != nil {
		if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrUnavailable) {
			err = fmt.Errorf("%s: %w: %w", name, storage.ErrBusy, err)
		}
		return nil, err
	}
	h.keep()
	return h, nil
}

// Exclusive implements storage.Coordinator.
func (l *leases) Exclusive(ctx context.Context) (storage.Lease, error) {
	held, err := l.Lock(ctx, exclusive)
	if err != nil {
		return nil, err
	}
	joined, err := l.p.anybody(members)
	if err == nil && joined {
		err = fmt.Errorf("somebody has joined: %w", storage.ErrBusy)
	}
	if err != nil {
		held.Release()
		return nil, err
	}
	return held, nil
}

// Join implements storage.Coordinator. It announces itself first and then looks for a
// holder of Exclusive, who does it the other way round.
func (l *leases) Join(ctx context.Context) (storage.Lease, error) {
	id := rand.Text()
	wish := &hold{p: l.p, key: waiting + id, owner: id, lost: make(chan struct{})}
	defer wish.Release()
	for {
		m := &hold{p: l.p, key: members + id, owner: id, lost: make(chan struct{})}
		if err := m.renew(); err != nil {
			return nil, err
		}
		held, err := l.p.lockHeld(exclusive)
		if err == nil && held.Owner == "" {
			m.keep()
			return m, nil
		}
		m.Release()
		if err == nil {
			err = wish.renew()
		}
		if err != nil {
			return nil, err
		}
		if err := sleep(ctx, poll); err != nil {
			return nil, fmt.Errorf("%w: %w", storage.ErrBusy, err)
		}
	}
}

// anybody says whether somebody who may live has a lease below prefix.
func (p *Process) anybody(prefix string) (bool, error) {
	for n, err := range p.list(prefix, "", true) {
		var w lease
		if err == nil {
			err = json.Unmarshal(n.content, &w)
		}
		if err != nil {
			return false, err
		}
		if !time.Now().After(w.Until.Add(p.b.o.MaxLate)) {
			return true, nil
		}
	}
	return false, nil
}

// hold is a storage.Lease: an object that is renewed until Release. A lock's is
// replaced by condition, so that nobody has it twice; others have a key of their own.
type hold struct {
	p     *Process
	key   string
	owner string
	lost  chan struct{}
	over  sync.Once // closes lost

	mu    sync.Mutex
	cond  condition
	until time.Time
	done  bool
}

// renew reckons from before the request.
func (h *hold) renew() error {
	return h.write(lease{Owner: h.owner, Until: time.Now().Add(h.p.b.o.Lease)})
}

func (h *hold) write(l lease) error {
	if err := h.p.putJSON(h.key, l, h.cond); err != nil {
		return err
	}
	h.until = l.Until
	if h.cond.asked() {
		o, err := h.p.get("HEAD", h.key)
		if err != nil {
			return err
		}
		h.cond = condition{version: o.version}
	}
	return nil
}

// keep renews the lease until it is released or lost.
func (h *hold) keep() {
	go func() {
		tick := time.NewTicker(h.p.b.o.Lease / 8)
		defer tick.Stop()
		for {
			select {
			case <-h.lost:
				return
			case <-tick.C:
			}
			h.mu.Lock()
			if !h.done && time.Until(h.until) < h.p.b.o.Lease*3/4 {
				if err := h.renew(); errors.Is(err, storage.ErrConflict) || time.Now().After(h.until) {
					h.over.Do(func() { close(h.lost) })
				}
			}
			h.mu.Unlock()
		}
	}()
}

func (h *hold) Lost() <-chan struct{} { return h.lost }

func (h *hold) Wanted() bool {
	wanted, err := h.p.anybody(waiting)
	return err == nil && wanted && h.key == lockDir+exclusive
}

func (h *hold) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return
	}
	h.done = true
	h.over.Do(func() { close(h.lost) })
	if h.cond.asked() {
		_ = h.write(lease{}) // else it runs out
		return
	}
	_ = h.p.delete(h.key, condition{}, time.Time{}) // else it runs out
}
