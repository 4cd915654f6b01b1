package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/lease"
	"slipway/relay/internal/post"
)

func acquire(t *testing.T, s *Store, ttl time.Duration) bool {
	t.Helper()
	taken, err := s.Acquire(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func testLease_TakenByAnother_NothingOfTheFirstIsStored(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) || acquire(t, b, time.Hour) {
		t.Fatal("not exactly one has the lease")
	}
	keys, row := a.Keys(), []CryptoRow{{Kind: "olm", Key: "k", Value: []byte("ratchet")}}
	if err := keys.SaveCrypto(ctx, "DEV", row); err != nil {
		t.Fatal(err)
	}
	first, second := entry(1, "1"), entry(1, "2")
	insert(t, b, first, second)
	// The lease expires.
	if err := a.Lead(ctx, func(tx *Tx) error { return tx.exec(`UPDATE lease SET expires_at = '-infinity'`) }); err != nil {
		t.Fatal(err)
	}
	if !acquire(t, b, time.Hour) {
		t.Fatal("the second relay does not get the lease")
	}
	found(t, a, first.Entry, post.Refused{Reason: "by the first relay"}, 1)
	if m, err := b.Message(ctx, first.Entry.ID); err != nil || m.State != post.StateQueued {
		t.Errorf("the first relay made the message %s, %v", m.State, err)
	}
	if err := a.SetSetting(ctx, "k", "v"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("the first relay's setting: %v", err)
	}
	if err := a.SaveRoom(ctx, Room{ID: 1, Address: "!other"}); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("the first relay's room: %v", err)
	}
	if held, err := a.Renew(ctx, time.Hour, ""); held || err != nil {
		t.Errorf("the first relay renews the lease: %v, %v", held, err)
	}
	found(t, b, second.Entry, post.Sent{EventID: "$2"}, 1)
	if m, err := a.Message(ctx, second.Entry.ID); err != nil || m.State != post.StateSent {
		t.Errorf("the second relay made the message %s, %v", m.State, err)
	}
	if l, err := a.ReadLease(ctx); err != nil || !l.Held || l.Holder != "relay1" {
		t.Errorf("lease %+v, %v", l, err)
	}
	if err := b.Release(ctx, func(*Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	receives(t, "the lease is free", a.LeaseFree())
	if !acquire(t, a, time.Hour) {
		t.Error("the lease that was given back cannot be taken")
	}
	if err := keys.SaveCrypto(ctx, "DEV", row); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("keys that were read before another relay delivered are stored: %v", err)
	}
	if err := a.Keys().SaveCrypto(ctx, "DEV", row); err != nil {
		t.Errorf("keys that are read now: %v", err)
	}
	third := entry(1, "3")
	insert(t, a, third)
	late := NewOutcome(third.Entry, post.Refused{Reason: "under an earlier lease of its own"}, 1)
	late.epoch = a.Epoch() - 1
	update(t, a, func(tx *Tx) error { return tx.storeOutcomes([]*Outcome{late}) })
	if m, err := a.Message(ctx, third.Entry.ID); err != nil || !late.dropped || m.State != post.StateQueued {
		t.Errorf("a late result made the message %s, %v", m.State, err)
	}
}

// A relay whose lease another one has taken ends its term as soon as it learns that: it doesn't try to renew it again.
func testLease_RenewalIsRefused_TermEnds(t *testing.T) {
	a, b := relays(t)
	l := lease.NewLease(a.Member, zap.NewNop())
	if !l.Take(ctx) || !l.Valid() {
		t.Fatal("no lease")
	}
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	renewals := 0
	l.Keep(keeping, func() string {
		if renewals++; renewals > 1 {
			stop()
			return ""
		}
		if err := a.Lead(ctx, func(tx *Tx) error { return tx.exec(`UPDATE lease SET expires_at = '-infinity'`) }); err != nil {
			t.Error(err)
		}
		if !acquire(t, b, time.Hour) {
			t.Error("the second relay does not get the lease")
		}
		return ""
	})
	if renewals != 1 || l.Valid() {
		t.Errorf("%d renewals, valid %v", renewals, l.Valid())
	}
}

// The holder of the lease continues delivering however busy the database is.
func testLease_ConnectionsAreBusy_IsRenewed(t *testing.T) {
	a, _ := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	for a.pools[0].Stats().InUse < writers {
		conn, err := a.pools[0].Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	if held, err := a.Renew(ctx, time.Hour, ""); !held || err != nil {
		t.Errorf("renewed: %v, %v", held, err)
	}
}
