package lease

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotHeld reports that this relay lost the lease, so its results and decisions are void.
var ErrNotHeld = errors.New("another relay delivers now")

// within bounds each question about the lease.
const within = 3 * time.Second

// Options configure a [Member].
type Options struct {
	Name    string          // of this relay, as the others show it
	DB      *sql.DB         // of announcements and rate limits
	Leases  *sql.DB         // connections of their own, so that the lease never waits for what senders cause
	Config  *pgx.ConnConfig // of the connection that listens
	Explain func(error) error
	Hear    func(Note)            // takes what another relay has announced
	Poll    func(context.Context) // looks for what another relay may have done; called every second
}

// Member is a relay among those that share a PostgreSQL database. The zero value is a relay that has its database to itself. Its
// methods are safe for concurrent use.
type Member struct {
	o     Options
	id    string       // of this process
	epoch atomic.Int64 // of the lease that is held or was held last

	stop context.CancelFunc
	wg   sync.WaitGroup
	wake chan struct{} // there is something to announce

	mu   sync.Mutex
	next Note

	lease chan struct{} // the lease was given back
}

// Join makes m one of several relays, until [Member.Leave].
func (m *Member) Join(o Options) {
	ctx, stop := context.WithCancel(context.Background())
	m.o, m.id, m.stop = o, rand.Text(), stop
	m.wake, m.lease = make(chan struct{}, 1), make(chan struct{}, 1)
	m.wg.Go(func() { m.publish(ctx) })
	m.wg.Go(func() { m.listen(ctx) })
	m.wg.Go(func() { m.poll(ctx) })
}

// Leave ends what [Member.Join] began.
func (m *Member) Leave() {
	if m.Shared() {
		m.stop()
		m.wg.Wait()
	}
}

// Shared reports whether other relays may use the database at the same time. Then only the holder of the lease delivers.
func (m *Member) Shared() bool { return m.stop != nil }

// Term is the lease as the database has it. All its times are the database's.
type Term struct {
	Held   bool // a relay has it, and it has not expired
	Holder string
	Epoch  int64 // rises with each holder
	Since  time.Time
	Status string // published by the holder
}

// Epoch returns the epoch of the lease that this relay believes to hold; 0 without one.
func (m *Member) Epoch() int64 { return m.epoch.Load() }

// Held reports whether this relay believes that it has the lease.
func (m *Member) Held() bool { return m.Epoch() != 0 }

// Forget makes this relay one that holds no lease: outcomes that are reported from now on are not stored.
func (m *Member) Forget() { m.epoch.Store(0) }

// ReadLease returns the lease.
func (m *Member) ReadLease(ctx context.Context) (t Term, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err = m.o.Leases.QueryRowContext(ctx, `SELECT expires_at > clock_timestamp(), holder, epoch, since, status FROM lease WHERE name = 'delivery'`).
		Scan(&t.Held, &t.Holder, &t.Epoch, &t.Since, &t.Status)
	return t, m.o.Explain(err)
}

// Acquire takes the lease for a time, if no relay holds it. From then on outcomes are written under its epoch.
func (m *Member) Acquire(ctx context.Context, ttl time.Duration) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var epoch int64
	err = m.o.Leases.QueryRowContext(ctx, `UPDATE lease SET epoch = epoch + 1, holder = $1, since = clock_timestamp(), status = '',
		expires_at = clock_timestamp() + $2 * interval '1 millisecond' WHERE name = 'delivery' AND expires_at < clock_timestamp() RETURNING epoch`,
		m.o.Name, float64(ttl.Milliseconds())).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, m.o.Explain(err)
	}
	m.epoch.Store(epoch)
	return true, nil
}

// Renew keeps the lease for a time from now on, and publishes a status to the others. It returns false if another relay has it.
func (m *Member) Renew(ctx context.Context, ttl time.Duration, status string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := m.o.Leases.ExecContext(ctx, `UPDATE lease SET expires_at = clock_timestamp() + $2 * interval '1 millisecond', status = $3
		WHERE name = 'delivery' AND epoch = $1`, m.Epoch(), float64(ttl.Milliseconds()), status)
	if err != nil {
		return false, m.o.Explain(err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// Fence reports whether the lease of an epoch is still held, and keeps it from being taken until the transaction on conn ends.
func Fence(ctx context.Context, conn *sql.Conn, epoch int64) (held bool, err error) {
	var one int
	err = conn.QueryRowContext(ctx, `SELECT 1 FROM lease WHERE name = 'delivery' AND epoch = $1 FOR SHARE`, epoch).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// ReleaseText gives the lease back within a transaction, which [Member.Announce] has to follow.
const ReleaseText = `UPDATE lease SET expires_at = '-infinity', status = '' WHERE name = 'delivery'`
