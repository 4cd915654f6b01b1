// Package lease is a storage.Coordinator by objects in the bucket that the processes
// share: it needs conditional writes and nothing else. The processes' clocks may
// differ by anything: whether a lease has run out is reckoned by the store's own clock.
//
// A process that has sections registers by a lease and looks at the state every second.
// Its sections end with their End, or when the lease does. Who raises the epoch of the state
// waits until each registered process has said that it has seen it, or that its older sections
// have ended; one that says nothing is dead once its lease, and what it may have sent before,
// are over. A process without sections leaves after some seconds and then sends nothing.
package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// Where the coordination lies, below the root. No valid key leads there.
const (
	stateKey  = ".slipway/state"
	writers   = ".slipway/writers/" // who may have sections
	members   = ".slipway/members/" // who has joined
	waiting   = ".slipway/waiting/" // who wants to
	lockDir   = ".slipway/locks/"
	exclusive = "exclusive"
)

// Options are times. The zero value is right for production.
type Options struct {
	Lease   time.Duration // how long a silent process is believed to have sections, or a lock; 0 = 10 s
	Member  time.Duration // how long one is believed to serve; 0 = 5 min
	Poll    time.Duration // how often a process with sections looks at the state; 0 = 1 s
	RunPoll time.Duration // and while a collection or a deletion is under way; 0 = Poll / 4
	Idle    time.Duration // after which a process without sections leaves; 0 = 8 s
	// MaxLate is the store's, see object.Limits.
	MaxLate time.Duration
}

// granularity of the store's clock.
const granularity = time.Second

// Coordinator is what one process has.
type Coordinator struct {
	c *object.Client
	o Options

	stopped context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	look1    sync.Mutex // held while the state is looked at; taken before mu
	watching bool
	self     record // Owner "" = not registered
	looked   bool   // at the state, since it registered: before, there are no sections
	until    time.Time
	used     time.Time // when the last section began or ended
	sections map[*section]struct{}
	touched  touched
	view     view

	guarding sync.Mutex // held while guards are published or withdrawn; taken before mu
	next     *sharedGuard
	over     []string // guards that were released
	known    known

	collector string // as whom this process last held the collector's lock
	joined    *hold  // as what this process last joined; nil = it never did, or has left
}

// record is the object by which a process registers.
type record struct {
	Owner   string
	Seen    uint64 // the epoch whose state its new sections know
	Drained uint64 // the epoch before which no section of it began
	Touched hashes `json:",omitempty"` // what its sections of the last seconds have touched
	Tells   bool   // Touched is all of that; older builds do not tell

	dead bool // and so it can do nothing any more
}

// New returns a coordinator. It sends nothing until it is used.
func New(c *object.Client, o Options) *Coordinator {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Member = cmp.Or(o.Member, 5*time.Minute)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.RunPoll = cmp.Or(o.RunPoll, o.Poll/4)
	o.Idle = cmp.Or(o.Idle, 8*time.Second)
	l := &Coordinator{c: c, o: o, sections: map[*section]struct{}{}, touched: touched{}}
	l.stopped, l.stop = context.WithCancel(context.Background())
	return l
}

// Close leaves. Sections that are open end with their lease.
func (l *Coordinator) Close() {
	l.stop()
	l.running.Wait()
	l.mu.Lock()
	last := l.self
	last.Touched = l.touched.since(time.Now().Add(-l.o.Idle))
	if len(l.sections) > 0 {
		last.Owner = ""
	}
	l.mu.Unlock()
	switch {
	case last.Owner == "":
	case last.Touched != "": // a deletion may ask; whoever comes after the lease removes it
		ctx, cancel := context.WithTimeout(context.Background(), l.o.Lease)
		defer cancel()
		last.Seen, last.Drained = math.MaxUint64, math.MaxUint64
		_, _ = l.c.PutJSON(ctx, writers+last.Owner, last, &object.Change{})
	default:
		l.leave(last.Owner)
	}
}

// Kill ends the process as its death would: nothing is sent any more.
func (l *Coordinator) Kill() {
	l.stop()
	l.running.Wait()
}

func (l *Coordinator) leave(owner string) {
	ctx, cancel := context.WithTimeout(context.Background(), l.o.Lease)
	defer cancel()
	_ = l.c.Delete(ctx, writers+owner, &object.Change{}) // it runs out, too
}

// dead says whether who wrote an object at that time, by the store's clock, and promised to be
// silent no longer than lease, can do nothing any more.
func (l *Coordinator) dead(written, now time.Time, lease time.Duration) bool {
	return now.After(written.Add(lease + granularity + l.o.MaxLate))
}

// errNoClock means that the store does not say what time it is.
var errNoClock = errors.New("the store answers without a Date header, so leases cannot be reckoned")

// Begin implements storage.Coordinator.
func (l *Coordinator) Begin(ctx context.Context) (storage.Section, error) {
	for {
		if err := l.stopped.Err(); err != nil {
			return nil, fmt.Errorf("%w: the coordination has ended", storage.ErrUnavailable)
		}
		l.mu.Lock()
		now := time.Now()
		if l.joined != nil && now.After(l.joined.Deadline()) {
			l.mu.Unlock()
			// It was stopped for longer than others believe, and has not noticed yet.
			return nil, fmt.Errorf("%w: %w: this process counts as dead, and joins again", storage.ErrUnavailable, storage.ErrTemporary)
		}
		if l.looked && l.until.Sub(now) > l.o.Lease/4 {
			s := &section{l: l, view: l.view, owner: l.self.Owner, seen: l.self.Seen, deadline: l.until}
			l.sections[s] = struct{}{}
			l.used = now
			l.mu.Unlock()
			return s, nil
		}
		l.mu.Unlock()
		if err := l.register(ctx); err != nil {
			return nil, err
		}
	}
}

// register begins a lease, or renews it in time. Of several callers one does it.
func (l *Coordinator) register(ctx context.Context) error {
	l.look1.Lock()
	defer l.look1.Unlock()
	l.mu.Lock()
	if l.looked && time.Until(l.until) > l.o.Lease/4 {
		l.mu.Unlock()
		return nil
	}
	if time.Now().After(l.until) {
		// What this process was believed to be may be swept away by now.
		l.self, l.view, l.looked = record{Owner: rand.Text(), Tells: true}, view{}, false
	}
	l.mu.Unlock()
	if err := l.renew(ctx); err != nil {
		return err
	}
	if err := l.look(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
	if !l.watching && l.stopped.Err() == nil {
		l.watching = true
		l.running.Go(l.watch)
	}
	return nil
}

// renew writes the record. It reckons from before the request. It needs look1.
func (l *Coordinator) renew(ctx context.Context) error {
	l.mu.Lock()
	next := l.self
	next.Drained = l.drained()
	next.Touched = l.touched.since(time.Now().Add(-l.o.Idle))
	until := l.until
	l.mu.Unlock()
	begun := time.Now()
	how := &object.Change{}
	if !until.IsZero() && begun.Before(until) {
		how.Before = until // later, this process is another one
	}
	if _, err := l.c.PutJSON(ctx, writers+next.Owner, next, how); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.self.Drained = next.Drained
	l.until = begun.Add(l.o.Lease)
	for s := range l.sections {
		if s.owner == next.Owner {
			s.deadline = l.until // everybody knows that it lasts
		}
	}
	return nil
}

// watch keeps the lease and says in it what this process has seen and ended.
func (l *Coordinator) watch() {
	for {
		l.mu.Lock()
		pause := l.o.Poll
		if l.view.busy() {
			pause = l.o.RunPoll
		}
		l.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-l.stopped.Done():
			return
		}
		if !l.tick() {
			return
		}
	}
}

// tick is false once the process has left.
func (l *Coordinator) tick() bool {
	l.look1.Lock()
	defer l.look1.Unlock()
	l.mu.Lock()
	over := !time.Now().Before(l.until)
	idle := len(l.sections) == 0 && time.Since(l.used) > l.o.Idle
	if over || idle {
		owner := l.self.Owner
		l.self, l.until, l.watching, l.looked = record{}, time.Time{}, false, false
		l.mu.Unlock()
		if idle && !over {
			l.leave(owner)
		}
		return false
	}
	was, left := l.self, time.Until(l.until)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.stopped, left)
	defer cancel()
	if l.look(ctx) != nil {
		return true // the next tick tries again, and the lease runs out
	}
	l.mu.Lock()
	news := was.Seen != l.self.Seen || was.Drained != l.drained()
	l.mu.Unlock()
	if news || left < l.o.Lease/2 {
		_ = l.renew(ctx)
	}
	return true
}

// drained is the epoch before which no section began that can change anything yet.
// It needs mu.
func (l *Coordinator) drained() uint64 {
	epoch := l.self.Seen
	now := time.Now()
	for s := range l.sections {
		if now.After(s.deadline.Add(l.o.MaxLate)) {
			delete(l.sections, s)
			continue
		}
		epoch = min(epoch, s.seen)
	}
	return epoch
}

// Barrier implements storage.Coordinator. Where nobody else is registered, nothing is written.
func (l *Coordinator) Barrier(ctx context.Context) error {
	return l.barrier(ctx, func(record) {})
}

// barrier calls seen with what each other process has written since it knows of the barrier.
func (l *Coordinator) barrier(ctx context.Context, seen func(record)) error {
	l.mu.Lock()
	before := make([]*section, 0, len(l.sections))
	for s := range l.sections {
		before = append(before, s)
	}
	owner := l.self.Owner
	l.mu.Unlock()
	alone := true
	if err := l.await(ctx, func(w record) bool {
		if w.dead && w.Owner != owner {
			seen(w)
		}
		alone = alone && (w.dead || w.Owner == owner)
		return true
	}); err != nil {
		return err
	}
	if !alone {
		epoch, err := l.raise(ctx, nil)
		if err != nil {
			return err
		}
		if err := l.await(ctx, func(w record) bool {
			if w.Owner == owner {
				return true
			}
			seen(w)
			return w.Drained >= epoch
		}); err != nil {
			return err
		}
	}
	return l.awaitOwn(ctx, before)
}

// awaitOwn waits for sections of this process.
func (l *Coordinator) awaitOwn(ctx context.Context, sections []*section) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l.mu.Lock()
		l.drained()
		open := false
		for _, s := range sections {
			_, is := l.sections[s]
			open = open || is
		}
		l.mu.Unlock()
		if !open {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// await waits until each process that may have sections satisfies ok, and removes the dead.
func (l *Coordinator) await(ctx context.Context, ok func(record) bool) error {
	for pause := l.o.RunPoll / 4; ; pause = min(2*pause, l.o.Poll) {
		waits := false
		all, now, err := l.c.All(ctx, writers)
		if err != nil {
			return err
		}
		for _, o := range all {
			if now.IsZero() {
				return errNoClock
			}
			w := record{Owner: o.Key[len(writers):]}
			if l.dead(o.Modified, now, l.o.Lease+l.o.Idle) { // nobody asks any more what it has touched
				how := &object.Change{If: storage.IfVersion(o.Version)}
				if err := l.c.Delete(ctx, o.Key, how); err != nil && !errors.Is(err, storage.ErrConflict) {
					return err
				}
				continue
			}
			if w.dead = l.dead(o.Modified, now, l.o.Lease); w.dead {
				ok(w)
				continue
			}
			if ok(w) { // by its name alone
				continue
			}
			_, err := l.c.GetJSON(ctx, o.Key, &w)
			if err != nil && !errors.Is(err, storage.ErrNotExist) {
				return err
			}
			waits = waits || err == nil && !ok(w)
		}
		if !waits {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
