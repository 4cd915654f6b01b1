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

// Where the coordination lies. No valid key leads there.
const (
	stateKey  = ".coordination/state"
	writers   = ".coordination/writers/" // who may have sections
	members   = ".coordination/members/" // who has joined
	waiting   = ".coordination/waiting/" // who wants to
	lockDir   = ".coordination/locks/"
	exclusive = "exclusive"
)

// state is what all processes look at again and again. It is replaced by condition.
type state struct {
	Epoch   uint64 // raised by each Barrier and Publish
	Owner   string // of the lock under which Pending was published
	Pending storage.Pending
}

// lease is an object that says until when its writer lives, by clocks that agree
// within MaxLate.
type lease struct {
	Owner   string
	Until   time.Time
	Seen    uint64 // the epoch whose state the process's new sections know
	Drained uint64 // the epoch before which no section of it began
}

// leases is a storage.Coordinator of one process.
//
// A process registers by its lease, and reads the state then and every few
// milliseconds. Its sections end with the lease that it had when they began.
// Who raises the epoch waits until each live process has said that it has seen it,
// or that its older sections have ended; a process that says nothing is dead once
// its lease and what it may have sent before are over.
type leases struct {
	p *Process

	mu       sync.Mutex
	ctx      context.Context // nil until the first section
	cancel   context.CancelFunc
	running  sync.WaitGroup
	lease    lease
	version  string // of the state that was read last
	pending  storage.Pending
	owner    string // who published it
	listed   map[string]bool
	void     bool // whoever published it is dead
	sections map[*section]struct{}
}

func newLeases(p *Process) *leases {
	return &leases{p: p, sections: map[*section]struct{}{}}
}

// poll is how often a process looks.
const poll = 2 * time.Millisecond

func (l *leases) stop() {
	l.mu.Lock()
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
		l.running.Wait()
	}
}

// leave takes the lease away of a process that ends in peace.
func (l *leases) leave() {
	if l.lease.Owner != "" {
		_ = l.p.delete(writers+l.lease.Owner, condition{}, time.Time{}) // it runs out, too
	}
}

// Begin implements storage.Coordinator.
func (l *leases) Begin(context.Context) (storage.Section, error) {
	if err := l.p.alive(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Until(l.lease.Until) < l.p.b.o.Lease/4 {
		if err := l.register(); err != nil {
			return nil, err
		}
	}
	s := &section{l: l, run: l.pending.Run, listed: l.listed, deadline: l.lease.Until, seen: l.lease.Seen}
	if l.void {
		s.run, s.listed = "", nil
	}
	l.sections[s] = struct{}{}
	return s, nil
}

// register begins a lease, or renews it in time, and needs l.mu.
func (l *leases) register() error {
	if time.Now().After(l.lease.Until) {
		// What this process was believed to be may be swept away by now.
		l.lease = lease{Owner: rand.Text()}
		l.version = ""
	}
	if err := l.renew(); err != nil {
		return err
	}
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
		ctx := l.ctx
		l.running.Go(func() { l.watch(ctx) })
	}
	return l.look()
}

// renew writes the lease, and needs l.mu. It reckons from before the request.
func (l *leases) renew() error {
	next := l.lease
	next.Until = time.Now().Add(l.p.b.o.Lease)
	if err := l.p.putJSON(writers+next.Owner, next, condition{}); err != nil {
		return err
	}
	l.lease = next
	return nil
}

// look reads the state if it is another, and whether who published it still lives. It
// needs l.mu.
func (l *leases) look() error {
	o, err := l.p.get("HEAD", stateKey)
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.version != l.version {
		s, version, err := l.p.state()
		if err != nil {
			return err
		}
		l.version, l.pending, l.owner = version, s.Pending, s.Owner
		l.listed = make(map[string]bool, len(s.Pending.Keys))
		for _, key := range s.Pending.Keys {
			l.listed[key] = true
		}
		l.lease.Seen = s.Epoch
	}
	l.void = false
	if l.pending.Run != "" || len(l.listed) > 0 {
		held, err := l.p.lockHeld(storage.CollectorLock)
		if err != nil {
			return err
		}
		l.void = held.Owner != l.owner
	}
	return nil
}

// watch keeps the lease and says in it what this process has seen and ended.
func (l *leases) watch(ctx context.Context) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if l.p.alive() != nil {
			return
		}
		l.mu.Lock()
		if time.Now().Before(l.lease.Until) {
			was := l.lease
			if l.look() == nil {
				l.lease.Drained = l.drained()
				if was.Seen != l.lease.Seen || was.Drained != l.lease.Drained || time.Until(was.Until) < l.p.b.o.Lease/2 {
					if l.renew() != nil {
						l.lease = was
						l.version = "" // look again
					}
				}
			}
		}
		l.mu.Unlock()
	}
}

// drained is the epoch before which no section began that can change anything yet.
// It needs l.mu.
func (l *leases) drained() uint64 {
	epoch := l.lease.Seen
	for s := range l.sections {
		if time.Now().After(s.deadline.Add(l.p.b.o.MaxLate)) {
			delete(l.sections, s)
			continue
		}
		epoch = min(epoch, s.seen)
	}
	return epoch
}

// Barrier implements storage.Coordinator.
func (l *leases) Barrier(ctx context.Context) error {
	epoch, err := l.p.raise(ctx, nil)
	if err != nil {
		return err
	}
	return l.p.await(ctx, func(w lease) bool { return w.Drained >= epoch })
}

// Publish implements storage.Coordinator.
func (l *leases) Publish(ctx context.Context, p storage.Pending) error {
	if len(p.Keys) > storage.MaxPending {
		return fmt.Errorf("%d keys listed: %w", len(p.Keys), storage.ErrTooLarge)
	}
	held, err := l.p.lockHeld(storage.CollectorLock)
	if err != nil {
		return err
	}
	epoch, err := l.p.raise(ctx, func(s *state) { s.Pending, s.Owner = p, held.Owner })
	if err != nil {
		return err
	}
	return l.p.await(ctx, func(w lease) bool { return w.Seen >= epoch })
}

// raise makes change and raises the epoch.
func (p *Process) raise(ctx context.Context, change func(*state)) (uint64, error) {
	for {
		s, version, err := p.state()
		if err != nil {
			return 0, err
		}
		s.Epoch++
		if change != nil {
			change(&s)
		}
		err = p.putJSON(stateKey, s, condition{absent: version == "", version: version})
		if err == nil {
			return s.Epoch, nil
		}
		// An unknown outcome counts as none: another epoch does no harm.
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrUnavailable) {
			return 0, err
		}
		if err := sleep(ctx, poll); err != nil {
			return 0, err
		}
	}
}

// await waits until each writer that may live satisfies ok, and removes the dead.
func (p *Process) await(ctx context.Context, ok func(lease) bool) error {
	for {
		waits := false
		for n, err := range p.list(writers, "", true) {
			var w lease
			if err == nil {
				err = json.Unmarshal(n.content, &w)
			}
			if err != nil {
				return err
			}
			switch {
			case ok(w):
			case time.Now().After(w.Until.Add(p.b.o.MaxLate)):
				if err := p.delete(n.key, condition{version: n.version}, time.Time{}); err != nil && !errors.Is(err, storage.ErrConflict) {
					return err
				}
			default:
				waits = true
			}
		}
		if !waits {
			return nil
		}
		if err := sleep(ctx, poll); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state reads it; version is "" if there is none yet.
func (p *Process) state() (s state, version string, err error) {
	o, err := p.get("GET", stateKey)
	if errors.Is(err, errMissing) {
		return state{}, "", nil
	}
	if err != nil {
		return state{}, "", err
	}
	err = json.Unmarshal(o.content, &s)
	return s, o.version, err
}

func (p *Process) putJSON(key string, v any, c condition) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.put(key, content, c, time.Time{})
}

type section struct {
	l        *leases
	run      string
	listed   map[string]bool // never changes
	deadline time.Time
	seen     uint64
	ended    bool // guarded by l.mu
}

func (s *section) Run() string { return s.run }

func (s *section) Listed(keys ...string) bool {
	for _, key := range keys {
		if s.listed[key] {
			return true
		}
	}
	return false
}

func (s *section) Deadline() time.Time { return s.deadline }

// Ended says whether End was called.
func (s *section) Ended() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.ended
}

func (s *section) End() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.ended = true
	delete(s.l.sections, s)
}
