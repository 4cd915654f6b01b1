package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/message"
)

// Change says that a room's entries are not as they were.
type Change struct {
	Room    int64 // 0: all rooms
	Kind    ChangeKind
	Entries []*message.Entry // of Added: what was added, in order; nil if that has to be read
}

// ChangeKind says what has changed in a room.
type ChangeKind int

// The kinds, each of which includes the ones before.
const (
	Added   ChangeKind = iota // entries were added
	Altered                   // entries that were read may have changed
	Retry                     // …and somebody wants the next attempt made now
)

// feed passes on what has become durable. Nobody is called: readers come for it.
type feed struct {
	reads  bool    // others add entries too: each change has to be read
	others *shared // who are told as well; nil without others

	mu      sync.Mutex
	rooms   map[int64]*Change
	signal  chan struct{}
	follow  map[int64]chan<- struct{} // by room: who is woken in place of signal
	failure error                     // of results that could not be stored

	depth depth

	waiters atomic.Int64
	final   map[int64][]chan struct{} // by message
}

func newFeed() *feed {
	return &feed{rooms: map[int64]*Change{}, signal: make(chan struct{}, 1), follow: map[int64]chan<- struct{}{}, final: map[int64][]chan struct{}{}}
}

// Changes receives when [Store.TakeChanges] has something.
func (s *Store) Changes() <-chan struct{} { return s.feed.signal }

// TakeChanges returns what has changed since it was last called in rooms that nobody follows, and why results could not
// be stored since.
func (s *Store) TakeChanges() (changes []Change, failure error) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	for room, c := range f.rooms {
		if f.follow[room] == nil {
			changes = append(changes, *c)
			delete(f.rooms, room)
		}
	}
	failure, f.failure = f.failure, nil
	return changes, failure
}

// Follow lets signal receive, if it is ready, when [Store.TakeChange] has something about a room; nil ends that. Whoever
// sends to a room is woken directly: a goroutine between costs a wake-up for each message.
func (s *Store) Follow(room int64, signal chan<- struct{}) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if signal == nil {
		delete(s.feed.follow, room)
		return
	}
	s.feed.follow[room] = signal
}

// TakeChange returns what has changed in a room since it was last called.
func (s *Store) TakeChange(room int64) (c Change, ok bool) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	known := s.feed.rooms[room]
	if known == nil {
		return c, false
	}
	delete(s.feed.rooms, room)
	return *known, true
}

// Retry asks for the next attempt in a room now.
func (s *Store) Retry(room int64) {
	s.feed.change(Change{Room: room, Kind: Retry})
	if s.shared != nil {
		s.shared.announce(note{Rooms: map[int64]ChangeKind{room: Retry}})
	}
}

func (f *feed) change(all ...Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range all {
		f.merge(c)
		if follower := f.follow[c.Room]; follower != nil {
			wake(follower)
		} else {
			wake(f.signal)
		}
	}
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// What is handed over of a room; more is read.
const (
	maxHanded      = 8
	maxHandedBytes = 64 << 10
)

// merge adds a change to what is known of its room. f.mu is held.
func (f *feed) merge(c Change) {
	if known := f.rooms[c.Room]; known != nil {
		c.Kind = max(c.Kind, known.Kind)
		if known.Entries == nil || c.Entries == nil {
			c.Entries = nil
		} else {
			c.Entries = append(known.Entries, c.Entries...)
		}
	}
	size := 0
	for _, e := range c.Entries {
		size += e.Size()
	}
	if len(c.Entries) > maxHanded || size > maxHandedBytes {
		c.Entries = nil
	}
	f.rooms[c.Room] = &c
}

// complain notes that results could not be stored.
func (f *feed) complain(err error) {
	f.mu.Lock()
	f.failure = err
	f.mu.Unlock()
	wake(f.signal)
}

// announce passes on what a batch has made durable.
func (f *feed) announce(b *batch) {
	var changes []Change
	var final []int64
	for _, r := range b.requests {
		for _, a := range r.accept {
			if a.stored() {
				changes = append(changes, f.added(&a.Entry))
			}
		}
	}
	for _, tx := range b.txs {
		changes = append(changes, tx.changes...)
		final = append(final, tx.final...)
	}
	for _, o := range b.outcomes {
		if o.dropped || o.FollowUp != nil { // where it was dropped a removal may have been added
			changes = append(changes, Change{Room: o.Entry.Room, Kind: Altered})
		}
		if !o.Entry.State.Pending() {
			f.wakeFinal(o.Entry.MessageID())
			if f.others != nil {
				final = append(final, o.Entry.MessageID())
			}
		}
	}
	for _, id := range final {
		f.wakeFinal(id)
	}
	f.depth.end(b)
	if len(changes) > 0 {
		f.change(changes...)
	}
	if f.others != nil {
		f.tellOthers(b, changes, final)
	}
}

// tellOthers tells the other relays what a batch has made durable.
func (f *feed) tellOthers(b *batch, changes []Change, final []int64) {
	n := note{Rooms: map[int64]ChangeKind{}, Final: final}
	for _, c := range changes {
		n.Rooms[c.Room] = max(n.Rooms[c.Room], c.Kind)
	}
	for _, tx := range b.txs {
		n.Accounts = n.Accounts || tx.revision != 0
	}
	if len(n.Rooms)+len(n.Final) > 0 || n.Accounts {
		f.others.announce(n)
	}
}

// wakeAll wakes everybody who waits for a message: it may be final.
func (f *feed) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.final {
		for _, c := range all {
			close(c)
		}
	}
	clear(f.final)
}

// added is the change that a message means for its room. Where only this process adds entries they are handed over.
func (f *feed) added(entry *message.Entry) Change {
	if f.reads {
		return Change{Room: entry.Room}
	}
	e := *entry // the delivery's own
	return Change{Room: e.Room, Entries: []*message.Entry{&e}}
}

// patience is how long results of deliveries wait to be committed with others.
func (f *feed) patience() time.Duration {
	if f.reads || f.waiters.Load() > 0 { // others may wait for them too
		return awaitedDelay
	}
	return outcomeDelay
}

// Watch returns a channel that is closed when a message becomes final, and a function that ends the waiting.
func (s *Store) Watch(id int64) (<-chan struct{}, func()) {
	f := s.feed
	c := make(chan struct{})
	f.waiters.Add(1)
	f.mu.Lock()
	f.final[id] = append(f.final[id], c)
	f.mu.Unlock()
	s.w.hurry()
	return c, func() { f.forget(id, c) }
}

func (f *feed) forget(id int64, c chan struct{}) {
	f.waiters.Add(-1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.final[id] = slices.DeleteFunc(f.final[id], func(x chan struct{}) bool { return x == c })
	if len(f.final[id]) == 0 {
		delete(f.final, id)
	}
}

func (f *feed) wakeFinal(id int64) {
	if f.waiters.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.final[id] {
		close(c)
	}
	delete(f.final, id)
}
