package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/lease"
)

// Change says that a room's entries are not as they were.
type Change struct {
	Room int64 // 0: all rooms that somebody follows
	Kind ChangeKind
}

// ChangeKind is the kind of a change in a room.
type ChangeKind int

// The kinds, each of which includes the ones before.
const (
	Added   ChangeKind = iota // entries were added
	Altered                   // entries that were read may have changed
	Retry                     // …and somebody wants the next attempt made now
)

// feed passes on what has become durable. Nobody is called: readers come for it.
type feed struct {
	reads  bool          // others add entries too: each change has to be read
	others *lease.Member // is told as well

	mu      sync.Mutex
	rooms   map[int64]*Change
	signal  chan struct{}
	follow  map[int64]chan<- struct{} // by room: who is woken in place of signal
	failure error                     // of results that could not be stored

	depth depth // entries on their way
	files depth // bytes of attachments

	depthBy shares // depth by application
	filesBy shares // files by application

	activity chan struct{}
	timed    chan struct{}
	edits    atomic.Int64 // see [Store.Edits]
	last     int64        // id of an entry that the last poll saw

	waiters atomic.Int64
	final   map[int64][]chan struct{} // by message
}

func newFeed(others *lease.Member) *feed {
	return &feed{others: others, rooms: map[int64]*Change{}, signal: make(chan struct{}, 1), activity: make(chan struct{}, 1), timed: make(chan struct{}, 1), follow: map[int64]chan<- struct{}{}, final: map[int64][]chan struct{}{}}
}

// Changes receives when [Store.TakeChanges] has something.
func (s *Store) Changes() <-chan struct{} { return s.feed.signal }

// Timed receives after a commit of this relay that may have changed [Store.NextDelayed] or [Store.NextReminder]. It has one receiver.
func (s *Store) Timed() <-chan struct{} { return s.feed.timed }

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

// Follow sends to signal, if it is ready, when [Store.TakeChange] has something about a room; nil ends that. The room's
// queue is woken directly: a goroutine between costs a wake-up for each message.
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
	s.Announce(lease.Note{Rooms: map[int64]int{room: int(Retry)}})
}

func (f *feed) change(all ...Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range all {
		if c.Room == 0 {
			for room, follower := range f.follow {
				f.merge(Change{room, c.Kind})
				wake(follower)
			}
			continue
		}
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

// merge adds a change to what is known of its room. f.mu is held.
func (f *feed) merge(c Change) {
	if known := f.rooms[c.Room]; known != nil {
		c.Kind = max(c.Kind, known.Kind)
	}
	f.rooms[c.Room] = &c
}

// complain records that results could not be stored.
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
	timed, edited := false, false
	for _, r := range b.requests {
		for _, a := range r.accept {
			if !a.stored() {
				continue
			}
			timed = timed || a.Entry.NextAt != 0
			changes = append(changes, Change{Room: a.Entry.Room})
			f.depth.add(1)
			f.depthBy.add(a.Entry.ApplicationID, 1)
		}
	}
	for _, tx := range b.txs {
		changes = append(changes, tx.changes...)
		final = append(final, tx.final...)
		timed, edited = timed || tx.timed, edited || tx.edited
	}
	for _, o := range b.outcomes {
		if o.dropped || o.Spreads() { // where it was dropped a removal may have been added
			changes = append(changes, Change{Room: o.Entry.Room, Kind: Altered})
		}
		if !o.Entry.State.Pending() {
			f.wakeFinal(o.Entry.MessageID())
			if f.others.Shared() {
				final = append(final, o.Entry.MessageID())
			}
		}
	}
	for _, id := range final {
		f.wakeFinal(id)
	}
	if len(changes) > 0 {
		f.change(changes...)
	}
	if edited {
		f.edits.Add(1)
	}
	if len(changes)+len(final)+len(b.outcomes) > 0 || edited { // streams whose credential is gone end
		wake(f.activity)
	}
	if timed {
		wake(f.timed)
	}
	if f.others.Shared() {
		f.tellOthers(b, changes, final)
	}
}

// tellOthers tells the other relays what a batch has made durable.
func (f *feed) tellOthers(b *batch, changes []Change, final []int64) {
	n := lease.Note{Rooms: map[int64]int{}, Final: final}
	for _, c := range changes {
		n.Rooms[c.Room] = max(n.Rooms[c.Room], int(c.Kind))
	}
	f.others.Announce(n)
}

// hear passes on what another relay has made durable.
func (f *feed) hear(n lease.Note) {
	if n.All {
		f.change(Change{Kind: Added})
		f.wakeAll()
	}
	for room, kind := range n.Rooms {
		f.change(Change{Room: room, Kind: ChangeKind(kind)})
	}
	for _, id := range n.Final {
		f.wakeFinal(id)
	}
	wake(f.activity)
}

// poll looks for what another relay has made durable, in case its notification was lost.
func (s *Store) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	s.feed.wakeAll()
	wake(s.feed.timed)
	var last int64
	if s.queryRow(ctx, s.d.lastID, "outbox").Scan(&last) == nil && last > s.feed.last {
		s.feed.last = last
		wake(s.feed.activity)
	}
	if s.Held() {
		s.feed.change(s.waitingRooms(ctx)...)
	}
}

// waitingRooms returns the rooms with pending entries, as changed.
func (s *Store) waitingRooms(ctx context.Context) (all []Change) {
	_ = s.rows.WithContext(ctx).Raw(`WITH RECURSIVE r (room) AS (
		(SELECT room FROM outbox WHERE final_at = 0 ORDER BY room LIMIT 1)
		UNION ALL
		SELECT (SELECT o.room FROM outbox o WHERE o.final_at = 0 AND o.room > r.room ORDER BY o.room LIMIT 1) FROM r WHERE r.room IS NOT NULL
	) SELECT room FROM r WHERE room IS NOT NULL`).Scan(&all) // the next poll tries again
	return all
}

// wakeAll wakes all waiters for messages: theirs may be final.
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
