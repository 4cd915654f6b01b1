package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestUpdateFailsAlone makes a change fail half way, alongside messages and other changes in the same commit.
func TestUpdateFailsAlone(t *testing.T) {
	s := fresh(t)
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.Update(ctx, func(tx *Tx) error {
				if err := tx.SetSetting(fmt.Sprint(i), "v"); err != nil {
					return err
				}
				if i%2 == 1 {
					return boom
				}
				return nil
			})
			if (i%2 == 1) != errors.Is(err, boom) {
				t.Errorf("update %d: %v", i, err)
			}
		})
		wg.Go(func() {
			if err := s.Insert(ctx, entry(1, fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		v, err := s.Setting(ctx, fmt.Sprint(i))
		if want := map[int]string{0: "v", 1: ""}[i%2]; err != nil || v != want {
			t.Errorf("setting %d is %q, %v; want %q", i, v, err, want)
		}
	}
	if entries := pending(t, s, 1); len(entries) != 40 {
		t.Errorf("%d messages", len(entries))
	}
}

func TestTakenIsRecognised(t *testing.T) {
	s := fresh(t)
	create := func(u User) error {
		return s.Update(ctx, func(tx *Tx) error { return tx.SaveUser(&u) })
	}
	if err := create(User{Name: "a", PasswordHash: "x", CreatedAt: 1}); err != nil {
		t.Fatal(err)
	}
	if err := create(User{Name: "A", PasswordHash: "x", CreatedAt: 1}); !IsTaken(err) {
		t.Errorf("the same name: %v", err)
	}
	if err := create(User{Name: "b", PasswordHash: "x", CreatedAt: 1}); err != nil {
		t.Error(err)
	}
}

// What the database refuses only at the end of a transaction isn't stored, and the caller learns that.
func TestUpdate_CommitFails(t *testing.T) {
	s := ready(t)
	update(t, s, func(tx *Tx) error {
		return tx.exec(`CREATE TABLE child (room BIGINT REFERENCES rooms (id) DEFERRABLE INITIALLY DEFERRED)`)
	})
	a := entry(1, "x")
	err := s.Update(ctx, func(tx *Tx) error { return tx.exec(`INSERT INTO child (room) VALUES (999999)`) })
	if err == nil {
		t.Fatal("a commit that fails is a success")
	}
	insert(t, s, a)
	var n int
	if err := s.queryRow(ctx, `SELECT count(*) FROM child`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are stored, %v", n, err)
	}
}

func TestClosedStoreTakesNothing(t *testing.T) {
	s := fresh(t)
	var wg sync.WaitGroup
	stored := make(chan int64, 1000)
	for range 20 {
		wg.Go(func() {
			for {
				a := entry(1, "x")
				err := s.Insert(ctx, a)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				stored <- a.Entry.ID
			}
		})
	}
	<-stored
	go func() {
		for range stored {
		}
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	close(stored)
	if err := s.Update(ctx, func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("update after the end: %v", err)
	}
}
