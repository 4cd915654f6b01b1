package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// TestPurgeOld_DeliveredAgainMeanwhile_Stays: between the look and the removal somebody may ask for another delivery.
func TestPurgeOld_DeliveredAgainMeanwhile_Stays(t *testing.T) {
	s := ready(t)
	again, gone := entry(1, "again"), entry(1, "gone")
	insert(t, s, again, gone)
	for _, a := range []*Incoming{again, gone} {
		s.Record(NewOutcome(a.Entry, post.Refused{}, 1))
	}
	settle(t, s)
	var purge sync.WaitGroup
	update(t, s, func(tx *Tx) error {
		purge.Go(func() {
			if _, err := s.PurgeOld(ctx, 0, gone.Entry.AcceptedAt+1, 10); err != nil {
				t.Error(err)
			}
		})
		for waits := false; !waits; time.Sleep(time.Millisecond) { // it has looked, and waits for its turn
			s.w.mu.Lock()
			waits = len(s.w.waiting) > 0
			s.w.mu.Unlock()
		}
		ok, err := tx.Requeue(again.Entry.ID, again.Entry.AcceptedAt)
		if !ok {
			t.Error("it is not queued again")
		}
		return err
	})
	purge.Wait()
	if m, err := s.Message(ctx, again.Entry.ID); err != nil || m.State != post.StateQueued {
		t.Errorf("delivered again: %+v, %v", m, err)
	}
	if _, err := s.Message(ctx, gone.Entry.ID); !IsMissing(err) {
		t.Errorf("the other one: %v", err)
	}
}

// A message that came in while the clock was ahead keeps no later one from being removed.
func TestPurgeOld_ClockWasAhead(t *testing.T) {
	s := ready(t)
	now := time.Now().UnixMilli()
	old, ahead, later, recent := entry(1, "old"), entry(1, "ahead"), entry(1, "later"), entry(1, "new")
	for a, at := range map[*Incoming]int64{old: now - 5000, ahead: now + 1_000_000_000, later: now - 4000, recent: now} {
		a.Entry.AcceptedAt = at
	}
	insert(t, s, old, ahead, later, recent)
	for _, a := range []*Incoming{old, ahead, later, recent} {
		s.Record(NewOutcome(a.Entry, post.Refused{}, 1))
	}
	settle(t, s)
	for next := int64(0); ; {
		var err error
		if next, err = s.PurgeOld(ctx, next, now-1000, 2); err != nil || next == 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	for a, want := range map[*Incoming]bool{old: false, ahead: true, later: false, recent: true} {
		if _, err := s.Message(ctx, a.Entry.ID); IsMissing(err) == want {
			t.Errorf("%s: %v", a.Entry.Body, err)
		}
	}
}

func TestTidy_Sessions(t *testing.T) {
	s := ready(t)
	for _, ends := range []int64{1000, 3000} {
		if err := s.CreateSession(ctx, Session{TokenHash: fmt.Append(nil, ends), UserID: 1, CSRF: "c", CreatedAt: 1, ExpiresAt: ends}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Tidy(ctx, 2000, 0, 0); err != nil {
		t.Fatal(err)
	}
	var left int64
	if err := s.queryRow(ctx, `SELECT sum(expires_at) FROM sessions`).Scan(&left); err != nil || left != 3000 {
		t.Errorf("sessions that end at %d are left, want 3000, %v", left, err)
	}
}

// Nothing is left of a deleted application, and nothing is taken from another one.
func TestPurgeApplications(t *testing.T) {
	s := ready(t)
	var ids []int64
	for _, name := range []string{"gone", "stays"} {
		app := Application{OwnerID: 1, Settings: Settings{Name: name}, RoomID: 1}
		update(t, s, func(tx *Tx) error {
			err := tx.CreateApplication(&app)
			return errors.Join(err, tx.SaveDigest(post.Digest{ApplicationID: app.ID, BeganAt: 1}))
		})
		a := entry(1, name)
		a.Entry.ApplicationID, a.Key = app.ID, &Key{Key: "k", Hash: []byte("hash")}
		insert(t, s, a)
		ids = append(ids, app.ID)
	}
	update(t, s, func(tx *Tx) error { return tx.exec(`UPDATE applications SET deleted_at = 1 WHERE id = ?`, ids[0]) })
	for range 2 {
		if _, err := s.PurgeApplications(ctx, 10); err != nil {
			t.Fatal(err)
		}
	}
	for table, of := range map[string]string{"applications": "id", "outbox": "application_id", "idempotency": "application_id", "digests": "application_id"} {
		for i, want := range []int{0, 1} {
			var n int
			if err := s.queryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s = ?`, table, of), ids[i]).Scan(&n); err != nil || n != want {
				t.Errorf("%s of application %d: %d rows, want %d, %v", table, i, n, want, err)
			}
		}
	}
}
