package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// ErrNotHeld says that another relay delivers now, so that what this one has found out or decided counts no more.
var ErrNotHeld = errors.New("another relay delivers now")

// leaseWithin bounds each question about the lease.
const leaseWithin = 3 * time.Second

// Lease is who delivers, as the database has it. All its times are the database's.
type Lease struct {
	Held   bool // somebody has it, and it has not expired
	Holder string
	Epoch  int64 // rises with each holder
	Since  time.Time
	Status string // what the holder publishes to the others
}

// Shared reports whether other relays may use the database at the same time. Then only the holder of the lease delivers.
func (s *Store) Shared() bool { return s.shared != nil }

// Name is what this relay is called where it is shown as the one that delivers.
func (s *Store) Name() string {
	if s.shared == nil {
		return ""
	}
	return s.shared.name
}

// Held says whether this relay believes that it has the lease.
func (s *Store) Held() bool { return s.w.epoch.Load() != 0 }

// Holds says whether this relay believes that it has the lease of an epoch.
func (s *Store) Holds(epoch int64) bool { return epoch != 0 && s.w.epoch.Load() == epoch }

// ReadLease returns who delivers.
func (s *Store) ReadLease(ctx context.Context) (l Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWithin)
	defer cancel()
	err = s.leases.QueryRowContext(ctx, `SELECT expires_at > clock_timestamp(), holder, epoch, since, status FROM lease WHERE name = 'delivery'`).
		Scan(&l.Held, &l.Holder, &l.Epoch, &l.Since, &l.Status)
	return l, explain(err)
}

// Acquire takes the lease for a time, if nobody holds it. From then on outcomes and what [Store.Lead] changes are written under
// its epoch.
func (s *Store) Acquire(ctx context.Context, ttl time.Duration) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWithin)
	defer cancel()
	var epoch int64
	err = s.leases.QueryRowContext(ctx, `UPDATE lease SET epoch = epoch + 1, holder = $1, since = clock_timestamp(), status = '',
		expires_at = clock_timestamp() + $2 * interval '1 millisecond' WHERE name = 'delivery' AND expires_at < clock_timestamp() RETURNING epoch`,
		s.shared.name, float64(ttl.Milliseconds())).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, explain(err)
	}
	s.w.epoch.Store(epoch)
	return true, nil
}

// Renew keeps the lease for a time from now on, and publishes a status to the others. It answers false if another relay has it.
func (s *Store) Renew(ctx context.Context, ttl time.Duration, status string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWithin)
	defer cancel()
	r, err := s.leases.ExecContext(ctx, `UPDATE lease SET expires_at = clock_timestamp() + $2 * interval '1 millisecond', status = $3
		WHERE name = 'delivery' AND epoch = $1`, s.w.epoch.Load(), float64(ttl.Milliseconds()), status)
	if err != nil {
		return false, explain(err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// Release gives the lease back after change, both or none, and wakes those who wait for it.
func (s *Store) Release(ctx context.Context, change func(*Tx) error) error {
	err := s.Lead(ctx, func(tx *Tx) error {
		return errors.Join(change(tx), tx.exec(`UPDATE lease SET expires_at = '-infinity', status = '' WHERE name = 'delivery'`))
	})
	if err == nil {
		s.shared.announce(note{Lease: true})
	}
	return err
}

// Forget ends what was written under the lease: outcomes that are reported from now on are not stored.
func (s *Store) Forget() { s.w.epoch.Store(0) }

// Lead is [Store.Update] for changes that only the relay that delivers may make. Where there is only one relay that is this one.
func (s *Store) Lead(ctx context.Context, change func(tx *Tx) error) error {
	return s.leadSince(ctx, s.w.epoch.Load(), change)
}

// leadSince is [Store.Lead] for what was found out under the lease of an epoch.
func (s *Store) leadSince(ctx context.Context, epoch int64, change func(tx *Tx) error) error {
	if s.shared == nil {
		return s.Update(ctx, change)
	}
	return s.Update(ctx, func(tx *Tx) error {
		if held, err := tx.sql.holds(tx.ctx, epoch); err != nil || !held {
			return errors.Join(err, ErrNotHeld)
		}
		return change(tx)
	})
}

// holds reports whether a lease is still held, and keeps it from being taken until the transaction ends.
func (s *statements) holds(ctx context.Context, epoch int64) (bool, error) {
	var one int
	err := s.conn.QueryRowContext(ctx, `SELECT 1 FROM lease WHERE name = 'delivery' AND epoch = $1 FOR SHARE`, epoch).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// storeOutcomes writes results, unless they were found out under a lease that another relay has now.
func (w *writer) storeOutcomes(ctx context.Context, all []*Outcome) error {
	held := true
	if w.shared && len(all) > 0 {
		var err error
		if held, err = w.sql.holds(ctx, w.epoch.Load()); err != nil {
			return err
		}
	}
	ours := make([]*Outcome, 0, len(all))
	for _, o := range all {
		if o.dropped = !held || w.shared && o.epoch != w.epoch.Load(); o.dropped {
			o.counts = false
		} else {
			ours = append(ours, o)
		}
	}
	return w.storeEach(ctx, ours)
}
