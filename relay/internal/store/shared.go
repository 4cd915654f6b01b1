package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	channel     = "slipway_relay"
	maxNote     = 7900            // bytes; PostgreSQL takes 8000
	lookEvery   = 2 * time.Second // in case a notification was lost
	listenAgain = time.Second
)

// shared publishes to the other relays on a database what this one has changed, and receives what they publish. Notifications may
// be lost: whoever waits for one looks again after a while.
type shared struct {
	name string // of this relay
	id   string // of this process
	pool *sql.DB
	cfg  *pgx.ConnConfig
	feed *feed
	stop context.CancelFunc
	wg   sync.WaitGroup
	wake chan struct{} // there is something to announce

	mu   sync.Mutex
	next note

	lease    chan struct{} // the lease was given back
	accounts chan struct{} // users or applications were changed
}

// note is a notification of one relay to the others.
type note struct {
	From     string               `json:"f"`
	Rooms    map[int64]ChangeKind `json:"r,omitempty"` // 0: all
	Final    []int64              `json:"m,omitempty"` // messages
	All      bool                 `json:"all,omitempty"`
	Accounts bool                 `json:"a,omitempty"`
	Lease    bool                 `json:"l,omitempty"`
}

func (n *note) isEmpty() bool {
	return len(n.Rooms)+len(n.Final) == 0 && !n.All && !n.Accounts && !n.Lease
}

func startShared(name string, id string, pool *sql.DB, cfg *pgx.ConnConfig, f *feed) *shared {
	ctx, stop := context.WithCancel(context.Background())
	s := &shared{
		name: name, id: id, pool: pool, cfg: cfg, feed: f, stop: stop, wake: make(chan struct{}, 1),
		lease: make(chan struct{}, 1), accounts: make(chan struct{}, 1),
	}
	f.others, f.depth.shared = s, true
	s.wg.Go(func() { s.publish(ctx) })
	s.wg.Go(func() { s.listen(ctx) })
	return s
}

func (s *shared) close() {
	s.stop()
	s.wg.Wait()
}

// LeaseFree receives when another relay has given the lease back.
func (s *Store) LeaseFree() <-chan struct{} { return s.shared.lease }

// AccountsChanged receives when another relay has changed users or applications.
func (s *Store) AccountsChanged() <-chan struct{} { return s.shared.accounts }

// announce has something sent to the other relays soon.
func (s *shared) announce(n note) {
	s.mu.Lock()
	for room, kind := range n.Rooms {
		if s.next.Rooms == nil {
			s.next.Rooms = map[int64]ChangeKind{}
		}
		s.next.Rooms[room] = max(s.next.Rooms[room], kind)
	}
	s.next.Final = append(s.next.Final, n.Final...)
	s.next.Accounts = s.next.Accounts || n.Accounts
	s.next.Lease = s.next.Lease || n.Lease
	s.mu.Unlock()
	poke(s.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// publish sends what was announced, until ctx is done.
func (s *shared) publish(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
		}
		s.mu.Lock()
		n := s.next
		s.next = note{}
		s.mu.Unlock()
		if n.isEmpty() {
			continue
		}
		n.From = s.id
		text, err := json.Marshal(n)
		if err == nil && len(text) > maxNote {
			text, err = json.Marshal(note{From: n.From, All: true, Accounts: n.Accounts, Lease: n.Lease})
		}
		if err == nil {
			s.send(context.WithoutCancel(ctx), string(text))
		}
	}
}

func (s *shared) send(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(ctx, leaseWithin)
	defer cancel()
	_, _ = s.pool.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, text) // if it fails the others find out when they look
}

// listen receives what the others publish, until ctx is done.
func (s *shared) listen(ctx context.Context) {
	for ctx.Err() == nil {
		s.hearAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// hearAll listens on one connection until that is lost.
func (s *shared) hearAll(ctx context.Context) {
	conn, err := pgx.ConnectConfig(ctx, s.cfg)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	s.take(note{All: true, Accounts: true}) // what was published meanwhile
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		var heard note
		if json.Unmarshal([]byte(n.Payload), &heard) == nil && heard.From != s.id {
			s.take(heard)
		}
	}
}

// take passes on a notification of another relay.
func (s *shared) take(n note) {
	if n.All {
		s.feed.change(Change{Kind: Added})
		s.feed.wakeAll()
	}
	changes := make([]Change, 0, len(n.Rooms))
	for room, kind := range n.Rooms {
		changes = append(changes, Change{Room: room, Kind: kind})
	}
	if len(changes) > 0 {
		s.feed.change(changes...)
	}
	for _, id := range n.Final {
		s.feed.wakeFinal(id)
	}
	if n.Accounts {
		poke(s.accounts)
	}
	if n.Lease {
		poke(s.lease)
	}
}

// LookForEntries makes [Store.Changes] report all rooms with entries on their way, in case a notification was lost.
func (s *Store) LookForEntries(ctx context.Context) error {
	rows, err := s.read.QueryContext(ctx, `WITH RECURSIVE r (room) AS (
		(SELECT room FROM outbox WHERE final_at = 0 ORDER BY room LIMIT 1)
		UNION ALL
		SELECT (SELECT o.room FROM outbox o WHERE o.final_at = 0 AND o.room > r.room ORDER BY o.room LIMIT 1) FROM r WHERE r.room IS NOT NULL
	) SELECT room FROM r WHERE room IS NOT NULL`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var changes []Change
	for rows.Next() {
		var room int64
		if err := rows.Scan(&room); err != nil {
			return err
		}
		changes = append(changes, Change{Room: room})
	}
	if len(changes) > 0 {
		s.feed.change(changes...)
	}
	return rows.Err()
}
