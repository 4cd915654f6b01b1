package delivery

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/store"
)

// yes is a homeserver that takes everything.
type yes struct{ Rooms }

func (yes) Send(context.Context, matrix.Outgoing) (string, error)    { return "$e", nil }
func (yes) Redact(context.Context, matrix.Redaction) (string, error) { return "$r", nil }
func (yes) Device() string                                           { return "DEV" }
func (yes) Probe(context.Context) error                              { return nil }
func (yes) Upload(context.Context, matrix.Upload) (matrix.Media, error) {
	return matrix.Media{URI: "mxc://hs/f"}, nil
}

func (yes) Find(context.Context, string, string, time.Time) (matrix.Found, error) {
	return matrix.Found{Complete: true}, nil
}

func (yes) Resolve(_ context.Context, address string) (string, error) { return address, nil }

func (yes) Joined(context.Context) ([]string, error) { return nil, nil }

func (yes) Info(context.Context, string) (matrix.RoomInfo, error) { return matrix.RoomInfo{}, nil }

// A room that always gets its messages one by one remembers no more of those that are sent than may be unknown to the
// database, and neither does one that gets them all at once.
func TestQueueForgetsWhatIsSettled(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	room := withRoom(t, s)
	d, err := New(t.Context(), Options{Store: s, Sender: yes{}, Rooms: yes{}, Log: zap.NewNop(), Metrics: NewMetrics(prometheus.NewRegistry()), Parallel: 2, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	accept := func(n int) (last int64) {
		var all []*store.Accept
		for range n {
			now := time.Now().UnixMilli()
			all = append(all, &store.Accept{Entry: outbox.Entry{Origin: outbox.Origin{ApplicationID: 1, Room: room, AcceptedAt: now}, Txn: message.NewTxn(), QueuedAt: now, Content: outbox.Content{Body: "x"}}})
		}
		if err := s.Accept(ctx, all...); err != nil {
			t.Fatal(err)
		}
		return all[n-1].Entry.ID
	}
	wait := func(id int64) {
		final, end := s.Watch(id)
		defer end()
		if m, err := s.Message(ctx, id); err != nil || m.State.Pending() {
			<-final
		}
		if m, err := s.Message(ctx, id); err != nil || m.State != outbox.StateSent {
			t.Fatalf("message %d is %s, %v", id, m.State, err)
		}
	}
	wait(accept(3 * store.Window))
	for range 3 * store.Window {
		wait(accept(1))
	}
	stop()
	<-ended
	if q := d.all()[0]; len(q.finished) > store.Window {
		t.Errorf("%d final entries are remembered", len(q.finished))
	}
	n, err := s.Waiting(t.Context())
	for range 1000 { // it is an estimate for a second after a count that overlapped with a commit
		if n == 0 || err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
		n, err = s.Waiting(t.Context())
	}
	if n != 0 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
}

// gone is a homeserver during whose first answer the application is deleted.
type gone struct {
	yes
	s *store.Store
}

func (g gone) Send(ctx context.Context, _ matrix.Outgoing) (string, error) {
	return "$e", g.s.Update(ctx, func(tx *store.Tx) error { return tx.DeleteApplications(1, 1) })
}

// A long message that is given up after its first event leaves nothing of the others in memory.
func TestQueue_LongMessageEndsEarly_KeepsNoEvents(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	room, hs := withRoom(t, s), gone{s: s}
	d, err := New(t.Context(), Options{
		Store: s, Sender: hs, Rooms: hs, Log: zap.NewNop(), Metrics: NewMetrics(prometheus.NewRegistry()), Parallel: 2, MaxAge: time.Hour,
		Format: format.Options{MaxEvents: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	now := time.Now().UnixMilli()
	a := &store.Accept{Entry: outbox.Entry{Origin: outbox.Origin{ApplicationID: 1, Room: room, AcceptedAt: now}, Txn: message.NewTxn(), QueuedAt: now, Content: outbox.Content{Body: strings.Repeat("- a line\n", 20_000)}}}
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Message(ctx, a.Entry.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Waiting(ctx); err != nil || n == 0 && !m.State.Pending() {
			if err != nil || m.State != outbox.StateSent {
				t.Errorf("the message is %s, %v", m.State, err)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	<-ended
	for _, q := range d.all() {
		if q.long.events != nil {
			t.Errorf("%d events are kept", len(q.long.events))
		}
	}
}

// withRoom makes a room with an application, both of id 1.
func withRoom(t *testing.T, s *store.Store) (room int64) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		u := store.User{Name: "u", CreatedAt: 1}
		if err := tx.SaveUser(&u); err != nil {
			return err
		}
		r, err := tx.RoomAt("!a")
		if err != nil {
			return err
		}
		room = r.ID
		return tx.CreateApplication(&store.Application{OwnerID: u.ID, Name: "a", RoomID: r.ID, ShowSender: "auto", DefaultFormat: "auto", CreatedAt: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// TestQueue_ReaderHeardOfWhileItBlocks_TriesAgain: somebody who can read may be heard of at any moment while an attempt that has
// found nobody ends. Another attempt follows at once.
func TestQueue_ReaderHeardOfWhileItBlocks_TriesAgain(t *testing.T) {
	block := func(q *queue) {
		q.setRoom(func(r *store.Room) { r.BlockedAs = string(matrix.ClassEncrypted) })
	}
	ends := []func(*queue){block, func(q *queue) { q.delay(blockedFor) }, (*queue).retryNow}
	for heard := range len(ends) + 1 {
		q := newQueue(nil, store.Room{ID: 1, Encrypted: true})
		for i := range len(ends) + 1 {
			if i == heard {
				readersChanged([]*queue{q})
			}
			if i < len(ends) {
				ends[i](q)
			}
		}
		if wait := q.due(); wait > 0 {
			t.Errorf("heard before step %d: the next attempt comes in %v", heard, wait)
		}
	}
}
