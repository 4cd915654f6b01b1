// Package relaytest makes a real relay service over a scripted homeserver, for
// the tests of what stands on it.
package relaytest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/store"
)

// The administrator of the services made here.
const (
	AdminName     = "admin"
	AdminPassword = "correct horse"
	AdminMatrixID = "@admin:example.org"
)

// New makes a service on a database of its own and delivers with it until the
// test ends. It returns once the homeserver has answered, unless change, which adjusts
// the options and may be nil, lets it fail.
func New(t testing.TB, change func(*relay.Options)) (*relay.Service, *Homeserver) {
	t.Helper()
	hs := &Homeserver{rooms: map[string]matrix.RoomInfo{}}
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	o := relay.Options{
		Store: db, Sender: hs, Rooms: hs, Log: zap.NewNop(), Metrics: relay.NewMetrics(prometheus.NewRegistry()),
		Admin: account.Admin{Name: AdminName, Password: AdminPassword, MatrixID: AdminMatrixID}, CheckToken: true,
	}
	if change != nil {
		change(&o)
	}
	s, err := relay.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var delivering sync.WaitGroup
	delivering.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		delivering.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("close the service: %v", err)
		}
	})
	for n := 0; s.Status(ctx).Paused != "" && !hs.failing(); n++ {
		if n == 2000 {
			t.Fatalf("the service does not deliver: %s", s.Status(ctx).Paused)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return s, hs
}

// Homeserver is what the service takes for Matrix. It does what a test tells it.
type Homeserver struct {
	mu    sync.Mutex
	fail  error
	room  map[string]error
	rooms map[string]matrix.RoomInfo
	sent  []matrix.Outgoing
	hold  chan struct{}
}

// Fail makes every request fail with err; nil ends that.
func (h *Homeserver) Fail(err error) { h.locked(func() { h.fail = err }) }

func (h *Homeserver) failing() (yes bool) {
	h.locked(func() { yes = h.fail != nil })
	return yes
}

// FailIn makes every event for one room fail with err; nil ends that.
func (h *Homeserver) FailIn(roomID string, err error) {
	h.locked(func() {
		if h.room == nil {
			h.room = map[string]error{}
		}
		h.room[roomID] = err
	})
}

// Hold keeps every event waiting until the function that it returns is called.
func (h *Homeserver) Hold() (release func()) {
	gate := make(chan struct{})
	h.locked(func() { h.hold = gate })
	return func() {
		h.locked(func() { h.hold = nil })
		close(gate)
	}
}

// Has makes a room known; the bot is in it if info says so.
func (h *Homeserver) Has(info matrix.RoomInfo) { h.locked(func() { h.rooms[info.RoomID] = info }) }

// Sent returns the events taken so far.
func (h *Homeserver) Sent() (sent []matrix.Outgoing) {
	h.locked(func() { sent = slices.Clone(h.sent) })
	return sent
}

func (h *Homeserver) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Send implements delivery.Sender.
func (h *Homeserver) Send(ctx context.Context, out matrix.Outgoing) (id string, err error) {
	var hold chan struct{}
	h.locked(func() { hold = h.hold })
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return "", &matrix.SendError{Class: matrix.ClassRetry, Reason: "the relay ends", Err: ctx.Err()}
		}
	}
	h.locked(func() {
		if err = errors.Join(h.fail, h.room[out.RoomID]); err != nil {
			err = first(h.fail, h.room[out.RoomID])
			return
		}
		h.sent = append(h.sent, out)
		id = fmt.Sprintf("$event%d", len(h.sent))
	})
	return id, err
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Redact implements delivery.Sender.
func (h *Homeserver) Redact(ctx context.Context, r matrix.Redaction) (string, error) {
	return h.Send(ctx, matrix.Outgoing{RoomID: r.RoomID, TxnID: r.TxnID, EventType: "m.room.redaction"})
}

// Device implements delivery.Sender.
func (h *Homeserver) Device() string { return "DEVICE" }

// Probe implements delivery.Sender.
func (h *Homeserver) Probe(context.Context) (err error) {
	h.locked(func() { err = h.fail })
	return err
}

// Find implements delivery.Sender.
func (h *Homeserver) Find(context.Context, string, string, time.Time) (matrix.Found, error) {
	return matrix.Found{Complete: true}, nil
}

// MaySend implements delivery.Sender.
func (h *Homeserver) MaySend(context.Context, matrix.Outgoing) error { return nil }

// Upload implements delivery.Sender.
func (h *Homeserver) Upload(context.Context, string, string, []byte) (string, error) {
	return "mxc://example.org/file", nil
}

// Identity is the bot's Matrix id.
func (h *Homeserver) Identity() string { return "@relay:example.org" }

// Resolve implements delivery.Rooms.
func (h *Homeserver) Resolve(_ context.Context, address string) (id string, err error) {
	h.locked(func() {
		id, err = address, h.fail
		for _, r := range h.rooms {
			if r.Alias == address {
				id = r.RoomID
			}
		}
	})
	return id, err
}

// Join implements delivery.Rooms.
func (h *Homeserver) Join(_ context.Context, roomID string) (err error) {
	h.locked(func() {
		r, known := h.rooms[roomID]
		if !known || !r.Invited && !r.Joined {
			err = &matrix.SendError{Class: matrix.ClassBlock, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot is not invited"}
			return
		}
		r.Joined = true
		h.rooms[roomID] = r
	})
	return err
}

// Create implements delivery.Rooms.
func (h *Homeserver) Create(_ context.Context, n matrix.NewRoom) (id string, err error) {
	h.locked(func() {
		if err = h.fail; err != nil {
			return
		}
		id = fmt.Sprintf("!made%d:example.org", len(h.rooms)+1)
		h.rooms[id] = matrix.RoomInfo{RoomID: id, Name: n.Name, Joined: true, Writable: true}
	})
	return id, err
}

// Info implements delivery.Rooms.
func (h *Homeserver) Info(_ context.Context, roomID string) (info matrix.RoomInfo, err error) {
	h.locked(func() {
		info, err = h.rooms[roomID], h.fail
		info.RoomID = roomID
	})
	return info, err
}

// Membership implements delivery.Rooms. Everybody is in each room that was made known.
func (h *Homeserver) Membership(_ context.Context, roomID, _ string) (membership string, err error) {
	h.locked(func() {
		if _, known := h.rooms[roomID]; known {
			membership = "join"
		}
		err = h.fail
	})
	return membership, err
}

// Joined implements delivery.Rooms.
func (h *Homeserver) Joined(context.Context) (ids []string, err error) {
	h.locked(func() {
		err = h.fail
		for id, r := range h.rooms {
			if r.Joined {
				ids = append(ids, id)
			}
		}
	})
	return ids, err
}
