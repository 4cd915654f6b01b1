package lease

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	channel     = "slipway_relay"
	maxNote     = 7900 // bytes; PostgreSQL takes 8000
	listenAgain = time.Second
	pollEvery   = time.Second // in case a notification was lost
)

// Note is an announcement of one relay to the others. It may be lost: each relay polls for what it would have told.
type Note struct {
	From  string        `json:"f"`
	Rooms map[int64]int `json:"r,omitempty"` // kinds of changes by room
	Final []int64       `json:"m,omitempty"` // messages
	All   bool          `json:"all,omitempty"`
	Lease bool          `json:"l,omitempty"` // was given back
}

func (n *Note) isEmpty() bool {
	return len(n.Rooms)+len(n.Final) == 0 && !n.All && !n.Lease
}

// LeaseFree receives when another relay has given the lease back.
func (m *Member) LeaseFree() <-chan struct{} { return m.lease }

// poll makes up every second for notes that were lost, until ctx is done.
func (m *Member) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.o.Poll(ctx)
	}
}

// Announce queues a note for the other relays. It doesn't block.
func (m *Member) Announce(n Note) {
	if !m.Shared() || n.isEmpty() {
		return
	}
	m.mu.Lock()
	for room, kind := range n.Rooms {
		if m.next.Rooms == nil {
			m.next.Rooms = map[int64]int{}
		}
		m.next.Rooms[room] = max(m.next.Rooms[room], kind)
	}
	m.next.Final = append(m.next.Final, n.Final...)
	m.next.Lease = m.next.Lease || n.Lease
	m.mu.Unlock()
	signal(m.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// publish sends what was announced, until ctx is done.
func (m *Member) publish(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.wake:
		}
		m.mu.Lock()
		n := m.next
		m.next = Note{}
		m.mu.Unlock()
		if n.isEmpty() {
			continue
		}
		n.From = m.id
		text, err := json.Marshal(n)
		if err == nil && len(text) > maxNote {
			text, err = json.Marshal(Note{From: n.From, All: true, Lease: n.Lease})
		}
		if err == nil {
			m.send(context.WithoutCancel(ctx), string(text))
		}
	}
}

func (m *Member) send(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, _ = m.o.DB.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, text) // if it fails the others find out when they poll
}

// listen receives what the others announce, until ctx is done.
func (m *Member) listen(ctx context.Context) {
	for ctx.Err() == nil {
		m.hearAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// hearAll listens on one connection until that is lost.
func (m *Member) hearAll(ctx context.Context) {
	conn, err := pgx.ConnectConfig(ctx, m.o.Config)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	m.take(Note{All: true}) // what was announced meanwhile
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		var heard Note
		if json.Unmarshal([]byte(n.Payload), &heard) == nil && heard.From != m.id {
			m.take(heard)
		}
	}
}

func (m *Member) take(n Note) {
	m.o.Hear(n)
	if n.Lease {
		signal(m.lease)
	}
}
