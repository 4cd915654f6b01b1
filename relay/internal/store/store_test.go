package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var ctx = context.Background()

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func entry(room int64, body string) *Entry {
	now := time.Now().UnixMilli()
	return &Entry{ApplicationID: 1, Room: room, Txn: "t" + body, AcceptedAt: now, QueuedAt: now, Body: body}
}

func TestMigrateFromEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new folder", "relay.db")
	s := open(t, path)
	names, _ := migrations.ReadDir("migrations")
	if s.Migrated.From != 0 || s.Migrated.To != len(names) {
		t.Errorf("migrated %+v with %d files", s.Migrated, len(names))
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", fi.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if s.Migrated.From != len(names) || s.Migrated.To != len(names) {
		t.Errorf("opened again: migrated %+v", s.Migrated)
	}
}

// TestMigrate_PendingJoinsOfTheFirstEdition takes over what was one text in settings.
func TestMigrate_PendingJoinsOfTheFirstEdition(t *testing.T) {
	for text, want := range map[string][]PendingJoin{
		`{"!a:hs":{"inviter":"@o:hs","via":"hs"},"!b":{"replaces":"!old"},"!c":null}`: {{RoomID: "!a:hs", Inviter: "@o:hs", Via: "hs"}, {RoomID: "!b", Replaces: "!old"}},
		`{}`:       nil,
		`no json`:  nil,
		`["a", 1]`: nil,
	} {
		path := filepath.Join(t.TempDir(), "relay.db")
		atVersion(t, path, 5, `INSERT INTO settings (key, value) VALUES ('matrix.invites', '`+text+`')`)
		s := open(t, path)
		got, err := s.PendingJoins(ctx)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v (%v)", text, got, want, err)
		}
		if left, err := s.Setting(ctx, "matrix.invites"); left != "" || err != nil {
			t.Errorf("%s: the setting is still there: %q (%v)", text, left, err)
		}
	}
}

// TestMigrateKeepsData brings a database of each earlier version, with a message waiting in it, to the newest.
func TestMigrateKeepsData(t *testing.T) {
	names, _ := migrations.ReadDir("migrations")
	for version := 1; version <= len(names); version++ {
		path := filepath.Join(t.TempDir(), "relay.db")
		atVersion(t, path, version,
			`INSERT INTO messages (id, application_id, accepted_at, priority, source, title, body, content_type) VALUES (7, 1, 5, 0, 'api', 'T', 'B', '')`,
			`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at) VALUES (7, 7, 0, 3, 0, 'txn', 5)`)
		s := open(t, path)
		entries, more, err := s.Pending(ctx, 3, 0, 10, 1000)
		if err != nil || more || len(entries) != 1 || entries[0].Body != "B" || entries[0].Txn != "txn" {
			t.Errorf("from version %d: %+v, %v, %v", version, entries, more, err)
		}
		if r, err := s.Accept(ctx, entry(3, "next"), nil); err != nil || r.ID != 8 {
			t.Errorf("from version %d: the next message: %+v, %v", version, r, err)
		}
	}
}

// atVersion makes a database with an earlier schema and runs statements in it.
func atVersion(t *testing.T, path string, version int, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names, _ := migrations.ReadDir("migrations")
	for i := range version {
		if err := migrateTo(ctx, conn, i+1, "migrations/"+names[i].Name()); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := filepath.Join(t.TempDir(), "newer.db")
	s := open(t, newer)
	if err := s.Update(ctx, func(tx *Tx) error {
		return tx.Exec(`INSERT INTO schema_version (version, applied_at) VALUES (99, 0)`).Error
	}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db, _ := sql.Open("sqlite", foreign)
	if _, err := db.Exec(`CREATE TABLE users (id)`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(t.TempDir(), "held.db")
	open(t, held)
	for path, want := range map[string]string{
		newer: "newer", foreign: "something else", garbage: "not a database", held: ErrLocked.Error(), "": "needs a file",
		t.TempDir(): "directory", "/dev/null/x/relay.db": "not a directory",
	} {
		s, err := Open(ctx, path)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", path, err, want)
		}
	}
}

// TestOpenOddNames opens paths that would mean something else inside a URI.
func TestOpenOddNames(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "100%41.db", "ä.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		if _, err := s.Accept(ctx, entry(1, "x"), nil); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Size() == 0 && !exists(path+"-wal") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestGroupCommit accepts from many goroutines at once. Every message is there, once, under its own id, and OnCommit
// saw them in the order of their ids.
func TestGroupCommit(t *testing.T) {
	var seen []int64
	largest := 0
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	s.OnCommit(func(c Commit) {
		for _, e := range c.Accepted {
			seen = append(seen, e.ID)
		}
		largest = max(largest, len(c.Accepted))
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int64]string{}
	for g := range 80 {
		wg.Go(func() {
			for i := range 25 {
				body := fmt.Sprintf("%d.%d", g, i)
				r, err := s.Accept(ctx, entry(int64(g%4), body), nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got[r.ID] = body
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != 2000 || len(seen) != 2000 {
		t.Fatalf("%d ids, %d seen", len(got), len(seen))
	}
	for i, id := range seen {
		if id != int64(i+1) {
			t.Fatalf("commit %d had id %d", i, id)
		}
	}
	if largest < 2 {
		t.Error("no commit had more than one message")
	}
	for room := range int64(4) {
		entries, _, err := s.Pending(ctx, room, 0, 1000, 1<<30)
		if err != nil || len(entries) != 500 {
			t.Fatalf("room %d: %d entries, %v", room, len(entries), err)
		}
		for _, e := range entries {
			if got[e.ID] != e.Body || e.Txn != "t"+e.Body {
				t.Fatalf("entry %+v, want body %q", e, got[e.ID])
			}
		}
	}
}

// TestUpdateFailsAlone makes a change fail half way, beside messages and other changes in the same commit.
func TestUpdateFailsAlone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.Update(ctx, func(tx *Tx) error {
				if err := tx.Create(&Setting{Key: fmt.Sprint(i), Value: "v"}).Error; err != nil {
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
			if _, err := s.Accept(ctx, entry(1, fmt.Sprint(i)), nil); err != nil {
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
	if entries, _, err := s.Pending(ctx, 1, 0, 100, 1<<30); err != nil || len(entries) != 40 {
		t.Errorf("%d messages, %v", len(entries), err)
	}
}

func TestTakenIsRecognised(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	create := func(u User) error {
		return s.Update(ctx, func(tx *Tx) error { return tx.Create(&u).Error })
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

func TestPendingPages(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	for i := range 10 {
		if _, err := s.Accept(ctx, entry(1, fmt.Sprint(i)+strings.Repeat("x", 1000)), nil); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		after        int64
		limit, bytes int
		want         int
		more         bool
	}{{0, 100, 1 << 30, 10, false}, {0, 4, 1 << 30, 4, true}, {4, 6, 1 << 30, 6, false}, {0, 100, 1, 1, true}, {0, 100, 3000, 3, true}, {10, 5, 5, 0, false}}
	for _, test := range tests {
		got, more, err := s.Pending(ctx, 1, test.after, test.limit, test.bytes)
		if err != nil || len(got) != test.want || more != test.more {
			t.Errorf("%+v: %d entries, more %v, %v", test, len(got), more, err)
		}
		for i, e := range got {
			if e.ID != test.after+int64(i)+1 {
				t.Errorf("%+v: entry %d has id %d", test, i, e.ID)
			}
		}
	}
}

// TestOutcomesOutliveAnError reports results while the database cannot grow; they are stored when it can.
func TestOutcomesOutliveAnError(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	e := entry(1, "x")
	if _, err := s.Accept(ctx, e, nil); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		if err := s.Update(ctx, func(tx *Tx) error { return tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Error }); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	done := *e
	done.State, done.Error, done.Wire = Dead, "refused", []byte(strings.Repeat("w", 100_000))
	s.Report(&Outcome{Entry: done, At: 1, DeadNow: true})
	time.Sleep(50 * time.Millisecond)
	if r, err := s.Record(ctx, e.ID); err != nil || r.State != Queued {
		t.Fatalf("while it cannot be stored: %+v, %v", r.State, err)
	}
	limit(1 << 30)
	for range 200 {
		if r, err := s.Record(ctx, e.ID); err == nil && r.State == Dead {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the result was lost")
}

func TestClosedStoreTakesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	var wg sync.WaitGroup
	stored := make(chan int64, 1000)
	for range 20 {
		wg.Go(func() {
			for {
				r, err := s.Accept(ctx, entry(1, "x"), nil)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				stored <- r.ID
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
