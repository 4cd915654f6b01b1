package store

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// What the statements select of a message is what the table of the states says of its state.
func TestStates_AreSelectedByTheirSets(t *testing.T) {
	s := ready(t)
	byID := map[int64]post.State{}
	for _, state := range post.States {
		if state == post.StateBlocked { // not stored
			continue
		}
		a := entry(1, string(state))
		insert(t, s, a)
		byID[a.Entry.ID] = state
		final := int64(1)
		if state.Pending() {
			final = 0
		}
		update(t, s, func(tx *Tx) error {
			return tx.exec(`UPDATE outbox SET state = ?, final_at = ? WHERE id = ?`, string(state), final, a.Entry.ID)
		})
	}
	those := func(what string, has func(post.State) bool, ids []int64) {
		t.Helper()
		var want, got []post.State
		for _, state := range post.States {
			if has(state) && state != post.StateBlocked {
				want = append(want, state)
			}
			if slices.ContainsFunc(ids, func(id int64) bool { return byID[id] == state }) {
				got = append(got, state)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	list := func(states ...post.State) (ids []int64) {
		t.Helper()
		all, _, err := s.Messages(ctx, 0, Filter{States: states, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			ids = append(ids, m.ID)
		}
		return ids
	}
	block := func(reason string) {
		t.Helper()
		if err := s.SaveRoom(ctx, Room{ID: 1, Address: "!a", Blocked: reason}); err != nil {
			t.Fatal(err)
		}
	}

	var ids []int64
	for _, e := range pending(t, s, 1) {
		ids = append(ids, e.ID)
	}
	those("sent", post.State.Sendable, ids)

	read, _, err := s.Read(ctx, Reading{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	ids = nil
	for _, m := range read {
		ids = append(ids, m.ID)
	}
	those("read", post.State.Readable, ids)

	counted := int64(0)
	for _, state := range byID {
		if state.Counted() {
			counted++
		}
	}
	for range 2 {
		backlogs, err := s.Backlogs(ctx)
		all, err1 := s.Waiting(ctx)
		own, err2 := s.WaitingOf(ctx, 1)
		if got := []int64{backlogs[1].Waiting, all, own}; err != nil || err1 != nil || err2 != nil || !reflect.DeepEqual(got, []int64{counted, counted, counted}) {
			t.Errorf("%d wait (%v, %v, %v), want %d each", got, err, err1, err2, counted)
		}
	}

	for _, state := range byID {
		is := func(s post.State) bool { return s == state }
		those(fmt.Sprint("listed as ", state), is, list(state))
		block("no rights")
		those(fmt.Sprint("listed as ", state, " in a blocked room"), func(s post.State) bool { return is(s) && !s.Blockable() }, list(state))
		block("")
	}
	block("no rights")
	those("blocked", post.State.Blockable, list(post.StateBlocked))
	those("waiting in a blocked room", post.State.Pending, list(post.PendingStates...))
	block("")

	later := time.Now().Add(time.Hour).UnixMilli()
	if _, _, err := s.Expire(ctx, 1, later, later, "too old"); err != nil {
		t.Fatal(err)
	}
	ids = nil
	for id, state := range byID {
		if state != post.StateDead && load(t, s, id).State.Dead() {
			ids = append(ids, id)
		}
	}
	those("expired", post.State.Expiring, ids)
	rooms, err := s.OldRooms(ctx, later)
	if err != nil || len(rooms) > 0 {
		t.Errorf("rooms %v have old entries: %v", rooms, err)
	}
}

func TestInsert_StateIsNoInitialOne_Fails(t *testing.T) {
	s, a := ready(t), entry(1, "x")
	a.Entry.State = post.StateSent
	if err := s.Insert(ctx, a); err == nil {
		t.Error("a message began as sent")
	}
}
