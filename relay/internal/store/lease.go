package store

import (
	"context"
	"errors"

	"slipway/relay/internal/lease"
)

// Release gives the lease back after change, both or none, and wakes those who wait for it.
func (s *Store) Release(ctx context.Context, change func(*Tx) error) error {
	err := s.Lead(ctx, func(tx *Tx) error { return errors.Join(change(tx), tx.exec(lease.ReleaseText)) })
	if err == nil {
		s.Announce(lease.Note{Lease: true})
	}
	return err
}

// Lead is [Store.Update] for changes that only the delivering relay may make. A single relay always delivers.
func (s *Store) Lead(ctx context.Context, change func(tx *Tx) error) error {
	return s.leadSince(ctx, s.Epoch(), change)
}

// leadSince is [Store.Lead] for what was found out under the lease of an epoch.
func (s *Store) leadSince(ctx context.Context, epoch int64, change func(tx *Tx) error) error {
	if !s.Shared() {
		return s.Update(ctx, change)
	}
	return s.Update(ctx, func(tx *Tx) error {
		if held, err := lease.Fence(tx.ctx, tx.sql.conn, epoch); err != nil || !held {
			return errors.Join(err, lease.ErrNotHeld)
		}
		return change(tx)
	})
}

// storeOutcomes writes results, unless they were found out under a lease that another relay has now.
func (tx *Tx) storeOutcomes(all []*Outcome) error {
	held, member := true, tx.w.member
	if member.Shared() && len(all) > 0 {
		var err error
		if held, err = lease.Fence(tx.ctx, tx.sql.conn, member.Epoch()); err != nil {
			return err
		}
	}
	ours := make([]*Outcome, 0, len(all))
	for _, o := range all {
		if o.dropped = !held || member.Shared() && o.epoch != member.Epoch(); !o.dropped {
			ours = append(ours, o)
		}
	}
	return tx.storeEach(ours)
}
