package store

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/lease"
	"slipway/relay/internal/post"
)

// Change says that a room's entries are not as they were.
type Change struct {
	Room int64 // 0: all rooms
	Kind ChangeKind
	// Message is the message that was added, as [Store.Pending] returns it, except what that adds of its application. It is nil for
	// other changes, for what isn't sent in its own turn now, and if other relays use the database. It must not be kept.
	Message *post.Entry `gorm:"-"`
}

// ChangeKind is the kind of a change in a room.
type ChangeKind int

// The kinds, each of which includes the ones before.
const (
	Added   ChangeKind = iota + 1 // entries were added
	Altered                       // entries that were read may have changed
	Retry                         // …and somebody wants the next attempt made now
)

// Listener receives news of what is durable, in the goroutine that has committed it: its methods must neither block nor use the store.
type Listener interface {
	Changed(Change)
	NotStored(error) // results of deliveries
	// InFlight returns since when an attempt at an entry may have reached its room, and its device; 0 if none is under way.
	InFlight(room, entry int64) (began int64, device string)
}

// Subject selects the news that [Store.Await] waits for: the end of the message with that ID, or one of the constants.
type Subject int64

// Subjects other than messages.
const (
	Activity Subject = -1 // anything is durable
	Timed    Subject = -2 // [Store.NextDelayed] or [Store.NextReminder] may have changed
)

// feed passes on what has become durable.
type feed struct {
	reads  bool          // others add entries too: each change has to be read
	others *lease.Member // is told as well

	depth, depthBy depth // entries on their way, and by application
	files, filesBy depth // bytes of attachments, and by application

	edits atomic.Int64 // see [Store.Edits]
	last  int64        // id of an entry that the last poll saw

	mu       sync.Mutex
	listener Listener
	waiting  map[Subject][]chan struct{}
	messages atomic.Int64 // how many wait for messages
}

func newFeed(others *lease.Member) *feed {
	return &feed{others: others, waiting: map[Subject][]chan struct{}{}}
}

// Listen tells l of all changes from now on, in place of an earlier listener; nil tells nobody.
func (s *Store) Listen(l Listener) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.listener = l
}

// hearer returns the listener; nil if there is none.
func (f *feed) hearer() Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listener
}

func (f *feed) change(all ...Change) {
	if l := f.hearer(); l != nil {
		for _, c := range all {
			l.Changed(c)
		}
	}
}

// complain reports that results could not be stored.
func (f *feed) complain(err error) {
	if l := f.hearer(); l != nil {
		l.NotStored(err)
	}
}

// inFlight asks the listener for an attempt at an entry.
func (f *feed) inFlight(e *post.Entry) (began int64, device string) {
	if l := f.hearer(); l != nil {
		began, device = l.InFlight(e.Room, e.ID)
	}
	return began, device
}

// Edits returns a number that rises when this relay has changed users, clients, applications or rooms.
func (s *Store) Edits() int64 { return s.feed.edits.Load() }

// Retry asks for the next attempt in a room now.
func (s *Store) Retry(room int64) {
	s.feed.change(Change{Room: room, Kind: Retry})
	s.Announce(lease.Note{Rooms: map[int64]int{room: int(Retry)}})
}

// Await returns a channel that is closed when there is news of a subject, and a function that ends the waiting.
func (s *Store) Await(subject Subject) (<-chan struct{}, func()) {
	f, c := s.feed, make(chan struct{})
	f.mu.Lock()
	f.waiting[subject] = append(f.waiting[subject], c)
	f.mu.Unlock()
	if subject > 0 {
		f.messages.Add(1)
		s.w.hurry()
	}
	return c, func() { f.forget(subject, c) }
}

func (f *feed) forget(subject Subject, c chan struct{}) {
	if subject > 0 {
		f.messages.Add(-1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[subject] = slices.DeleteFunc(f.waiting[subject], func(x chan struct{}) bool { return x == c })
	if len(f.waiting[subject]) == 0 {
		delete(f.waiting, subject)
	}
}

func (f *feed) notify(all ...Subject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, subject := range all {
		for _, c := range f.waiting[subject] {
			close(c)
		}
		delete(f.waiting, subject)
	}
}

// notifyMessages wakes all who await messages: theirs may be final.
func (f *feed) notifyMessages() {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.waiting))
	f.mu.Unlock()
	f.notify(slices.DeleteFunc(all, func(subject Subject) bool { return subject <= 0 })...)
}

// announce passes on what a batch has made durable.
func (f *feed) announce(b *batch) {
	var changes []Change
	var final []int64
	news := []Subject{Activity}
	timed, edited := false, false
	for _, p := range b.parts {
		for _, a := range p.incoming {
			if !a.stored() {
				continue
			}
			timed = timed || a.Entry.NextAt != 0
			c := Change{Room: a.Entry.Room, Kind: Added}
			if e := &a.Entry; a.Relate == nil && e.Target == 0 && e.State.Sendable() && !e.Delayed() && !f.others.Shared() {
				c.Message = e
			}
			changes = append(changes, c)
			if a.Entry.State.Counted() {
				f.depth.add(0, 1)
				f.depthBy.add(a.Entry.ApplicationID, 1)
			}
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
		if !o.Entry.State.Awaited() {
			final = append(final, o.Entry.MessageID())
		}
	}
	for _, id := range final {
		news = append(news, Subject(id))
	}
	if timed {
		news = append(news, Timed)
	}
	if edited {
		f.edits.Add(1)
	}
	f.change(changes...)
	if len(changes)+len(final)+len(b.outcomes) > 0 || edited { // streams whose credential is gone end
		f.notify(news...)
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
		f.notifyMessages()
	}
	for room, kind := range n.Rooms {
		f.change(Change{Room: room, Kind: ChangeKind(kind)})
	}
	news := []Subject{Activity}
	for _, id := range n.Final {
		news = append(news, Subject(id))
	}
	f.notify(news...)
}

// poll looks for what another relay has made durable, in case its notification was lost.
func (s *Store) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	s.feed.notifyMessages()
	s.feed.notify(Timed)
	var last int64
	if s.queryRow(ctx, s.d.lastID, "outbox").Scan(&last) == nil && last > s.feed.last {
		s.feed.last = last
		s.feed.notify(Activity)
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
	) SELECT room, ? AS kind FROM r WHERE room IS NOT NULL`, Added).Scan(&all) // the next poll tries again
	return all
}

// patience is how long results of deliveries wait to be committed with others.
func (f *feed) patience() time.Duration {
	if f.reads || f.messages.Load() > 0 { // others may wait for them too
		return awaitedDelay
	}
	return outcomeDelay
}
