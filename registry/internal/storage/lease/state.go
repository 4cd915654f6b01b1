package lease

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// state is what all processes look at again and again. It is replaced by condition.
type state struct {
	Epoch  uint64 // raised by each change
	Run    string // of the collection that is under way
	Owner  string // of the lock under which it was published
	Listed hashes
	Guards map[string]guard `json:",omitempty"` // by who holds them
}

// guard keeps all others from changing some objects.
type guard struct {
	Keys  hashes
	Begun time.Time // by the store's clock
}

// hashes is a set of keys, each as 8 bytes, in base64.
type hashes string

func hash(key string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, key) //nolint:errcheck // a hash never fails
	return h.Sum64()
}

func hashesOf(keys []string) hashes {
	b := make([]byte, 0, 8*len(keys))
	for _, key := range keys {
		b = binary.BigEndian.AppendUint64(b, hash(key))
	}
	return hashes(base64.StdEncoding.EncodeToString(b))
}

func (h hashes) addTo(set map[uint64]bool) error {
	b, err := base64.StdEncoding.DecodeString(string(h))
	for ; len(b) >= 8; b = b[8:] {
		set[binary.BigEndian.Uint64(b)] = true
	}
	return err
}

// view is the state as this process has seen it. Its sets never change.
type view struct {
	version string
	state   state
	listed  map[uint64]bool
	guarded map[uint64]bool // by others
	void    bool            // whoever published the list is dead
}

// busy says whether something is under way that others wait for.
func (v *view) busy() bool {
	return v.state.Run != "" || v.state.Listed != "" || len(v.state.Guards) > 0
}

// look reads the state if it is another, and whether who published it still lives. It needs
// look1.
func (l *Coordinator) look(ctx context.Context) error {
	l.mu.Lock()
	v := l.view
	l.mu.Unlock()
	info, err := l.c.Head(ctx, stateKey)
	if errors.Is(err, storage.ErrNotExist) {
		l.mu.Lock()
		l.looked = true
		l.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	if info.Version != v.version || info.Version == "" {
		if v, info.Now, err = l.readState(ctx); err != nil {
			return err
		}
	}
	v.guarded = map[uint64]bool{}
	for _, g := range v.state.Guards {
		if !info.Now.After(g.Begun.Add(guardTime + granularity + l.o.MaxLate)) {
			if err := g.Keys.addTo(v.guarded); err != nil {
				return err
			}
		}
	}
	v.void = false
	if v.state.Run != "" || v.state.Listed != "" {
		held, err := l.lockHeld(ctx, storage.CollectorLock)
		if err != nil {
			return err
		}
		v.void = held != v.state.Owner
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.self.Seen, l.looked = v, v.state.Epoch, true
	return nil
}

func (l *Coordinator) readState(ctx context.Context) (v view, now time.Time, err error) {
	info, err := l.c.GetJSON(ctx, stateKey, &v.state)
	if err != nil {
		return v, now, err
	}
	v.version, v.listed = info.Version, map[uint64]bool{}
	return v, info.Now, v.state.Listed.addTo(v.listed)
}

// Publish implements storage.Coordinator.
func (l *Coordinator) Publish(ctx context.Context, p storage.Pending) error {
	if len(p.Keys) > storage.MaxPending {
		return fmt.Errorf("%d keys listed: %w", len(p.Keys), storage.ErrTooLarge)
	}
	l.mu.Lock()
	owner := l.collector
	l.mu.Unlock()
	epoch, err := l.raise(ctx, func(s *state, _ clock) error {
		// After the state was read: who takes the lock over replaces it, and then this fails.
		held, err := l.lockHeld(ctx, storage.CollectorLock)
		if err == nil && (held == "" || held != owner) {
			err = fmt.Errorf("the collector's lock was lost: %w", storage.ErrExpired)
		}
		s.Run, s.Listed, s.Owner = p.Run, hashesOf(p.Keys), held
		return err
	})
	if err != nil {
		return err
	}
	return l.awaitSeen(ctx, epoch)
}

// awaitSeen waits until all new sections know the state.
func (l *Coordinator) awaitSeen(ctx context.Context, epoch uint64) error {
	owner, err := l.lookNow(ctx)
	if err != nil {
		return err
	}
	return l.await(ctx, func(w record) bool { return w.Owner == owner || w.Seen >= epoch })
}

// lookNow brings what this process knows up to date. It returns its name, "" if it is not
// registered.
func (l *Coordinator) lookNow(ctx context.Context) (owner string, err error) {
	l.look1.Lock()
	defer l.look1.Unlock()
	l.mu.Lock()
	owner = l.self.Owner
	l.mu.Unlock()
	if owner == "" {
		return "", nil
	}
	return owner, l.look(ctx)
}

// maxFailed is how often the state is written without an answer, each time with the patience of
// the client.
const maxFailed = 3

// stateTrusted is how long the state is changed again without reading it. Meanwhile other
// processes, which read it, can hardly change it.
const stateTrusted = 100 * time.Millisecond

// clock is a time by the store's clock, and an earlier one by this process's.
type clock struct{ store, own time.Time }

// known is the state as this process has last written it.
type known struct {
	state   state
	version string
	read    clock // when it was last read
}

// raise makes change and raises the epoch. change learns when the state was read, and may refuse.
func (l *Coordinator) raise(ctx context.Context, change func(*state, clock) error) (uint64, error) {
	for failed := 0; ; {
		l.mu.Lock()
		k := l.known
		l.known = known{}
		l.mu.Unlock()
		there := true
		if time.Since(k.read.own) >= stateTrusted {
			own := time.Now()
			v, now, err := l.readState(ctx)
			if there = !errors.Is(err, storage.ErrNotExist); err != nil && there {
				return 0, err
			}
			k = known{v.state, v.version, clock{now, own}}
		}
		s, cond := k.state, storage.IfVersion(k.version)
		switch {
		case !there: // it is made first: without an answer about it nobody knows the store's time
			s, cond = state{}, storage.IfAbsent()
		case change != nil:
			if err := change(&s, k.read); err != nil {
				return 0, err
			}
			fallthrough
		default:
			s.Epoch++
		}
		version, err := l.c.PutJSON(ctx, stateKey, s, &object.Change{If: cond})
		if err == nil && there {
			if version != "" {
				l.mu.Lock()
				l.known = known{s, version, k.read}
				l.mu.Unlock()
			}
			return s.Epoch, nil
		}
		if err == nil {
			continue
		}
		// An unknown outcome counts as none: another epoch does no harm.
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrUnavailable) {
			return 0, err
		}
		if errors.Is(err, storage.ErrUnavailable) {
			if failed++; failed == maxFailed {
				return 0, err // callers need not have a ctx that ends
			}
		}
		if err := sleep(ctx, l.o.RunPoll/4); err != nil {
			return 0, err
		}
	}
}

// section is a storage.Section.
type section struct {
	l     *Coordinator
	view  view
	owner string
	seen  uint64

	// Guarded by l.mu.
	deadline time.Time
	ended    bool
	unclean  bool
	touched  []uint64
}

func (s *section) Run() string {
	if s.view.void {
		return ""
	}
	return s.view.state.Run
}

func (s *section) Listed(keys ...string) bool {
	if s.view.void || len(s.view.listed) == 0 {
		return false
	}
	for _, key := range keys {
		if s.view.listed[hash(key)] {
			return true
		}
	}
	return false
}

// Guarded says whether somebody keeps others from changing one of the keys.
func (s *section) Guarded(keys ...string) bool {
	for _, key := range keys {
		if len(s.view.guarded) > 0 && s.view.guarded[hash(key)] {
			return true
		}
	}
	return false
}

func (s *section) Deadline() time.Time {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.deadline
}

// Ended says whether End was called.
func (s *section) Ended() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.ended
}

// Unclean says that a request of the section got no answer: it may take effect until the
// deadline and what a late one takes, and so long others wait.
func (s *section) Unclean() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.unclean = true
}

func (s *section) End() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.l.used = time.Now()
	for _, key := range s.touched {
		s.l.touched.add(key, s.l.used, s.l.o.Idle)
	}
	if s.unclean {
		s.owner = "" // its deadline stays
		s.deadline = s.l.used
		return
	}
	delete(s.l.sections, s)
}
