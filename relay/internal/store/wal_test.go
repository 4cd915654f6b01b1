package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"slipway/relay/internal/message"
)

// After a flush that failed nobody knows what of the log is on disk: what is accepted next is flushed without it.
func TestFlushFails_WhatIsAcceptedNext_NeedsNoLog(t *testing.T) {
	if postgresServer != nil {
		t.Skip("PostgreSQL flushes by itself")
	}
	path, image := filepath.Join(t.TempDir(), "relay.db"), filepath.Join(t.TempDir(), "relay.db")
	s := open(t, path)
	withRoom(t, s)
	if err := s.w.wal.close(); err != nil { // so that a flush fails
		t.Fatal(err)
	}
	if err := s.Accept(ctx, entry(1, "first")); err == nil {
		t.Fatal("accepted without a flush")
	}
	var err error
	if s.w.wal, err = openWAL(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Accept(ctx, entry(1, "second")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, data, 0o600); err != nil {
		t.Fatal(err)
	}
	found, _, err := open(t, image).Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(found) != 2 || found[1].Body != "second" {
		t.Errorf("without the log: %+v, %v", found, err)
	}
}

// Results that have piled up are written in several transactions.
func TestOutcomes_MoreThanOneCommitTakes_AreAllStored(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	all := make([]*Accept, 2*maxOutcomes+10)
	for i := range all {
		all[i] = entry(1, "x")
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	var last int64
	err := s.Update(ctx, func(*Tx) error { // nothing else is committed meanwhile
		for _, a := range all {
			e := a.Entry
			e.State, e.EventID = message.StateSent, "$1"
			last = s.Report(&Outcome{Entry: e, At: 1})
		}
		return nil
	})
	if err := errors.Join(err, s.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	totals, err := s.Totals(ctx)
	if err != nil || s.Committed() != last || totals[1].Sent != int64(len(all)) {
		t.Errorf("%d of %d committed, %d counted, %v", s.Committed(), last, totals[1].Sent, err)
	}
}
