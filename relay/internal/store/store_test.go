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

	"slipway/relay/internal/message"
	"slipway/relay/internal/pgtest"
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

// fresh opens an empty database, of the kind that is tested now.
func fresh(t *testing.T) *Store {
	t.Helper()
	if postgresServer == nil {
		return open(t, filepath.Join(t.TempDir(), "relay.db"))
	}
	s, err := OpenPostgres(ctx, Postgres{DSN: postgresServer.Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// postgresServer is there while the tests run on PostgreSQL.
var postgresServer *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.OnBoth(m, func(s *pgtest.Server) { postgresServer = s }))
}

// entry is a message to be stored.
func entry(room int64, body string) *Accept {
	now := time.Now().UnixMilli()
	return &Accept{Entry: message.Entry{ApplicationID: 1, Room: room, Txn: message.NewTxn(), AcceptedAt: now, QueuedAt: now, Body: body}}
}

// withRoom makes the room and the application that entries name.
func withRoom(t *testing.T, s *Store) {
	t.Helper()
	err := s.Update(ctx, func(tx *Tx) error {
		u := User{Name: "u", CreatedAt: 1}
		if err := tx.SaveUser(&u); err != nil {
			return err
		}
		r, err := tx.RoomAt("!a")
		if err != nil {
			return err
		}
		return tx.CreateApplication(&Application{OwnerID: u.ID, Name: "a", RoomID: r.ID, CreatedAt: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
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
	for version := 1; version < 7; version++ { // from then on the outbox has other columns
		path := filepath.Join(t.TempDir(), "relay.db")
		atVersion(t, path, version,
			`INSERT INTO messages (id, application_id, accepted_at, priority, source, title, body, content_type) VALUES (7, 1, 5, 0, 'api', 'T', 'B', '')`,
			`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at) VALUES (7, 7, 0, 3, 0, 'txn', 5)`)
		s := open(t, path)
		entries, more, err := s.Pending(ctx, 3, 10, 1000, nil)
		if err != nil || more || len(entries) != 1 || entries[0].Body != "B" || entries[0].Txn != "txn" {
			t.Errorf("from version %d: %+v, %v, %v", version, entries, more, err)
		}
		next := entry(3, "next")
		if err := s.Accept(ctx, next); err != nil || next.Entry.ID != 8 {
			t.Errorf("from version %d: the next message: %+v, %v", version, next, err)
		}
	}
}

// TestKilledWhileMigrating takes an image of the files at the end of a migration, before it is committed, as a killed
// process leaves them: the database is of the version before, and is migrated when it is opened.
func TestKilledWhileMigrating(t *testing.T) {
	path, image := filepath.Join(t.TempDir(), "relay.db"), filepath.Join(t.TempDir(), "relay.db")
	last := 0
	names, _ := migrations.ReadDir("migrations")
	for i, n := range names {
		if n.Name() == "0007_outbox.sql" {
			last = i
		}
	}
	atVersion(t, path, last,
		`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
			INSERT INTO messages (id, application_id, accepted_at, priority, source, title, body, content_type) SELECT i, 1, 5, 0, 'api', 'T', hex(zeroblob(200)), '' FROM n`,
		`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at) SELECT id, id, 0, 1, CASE WHEN id < 4990 THEN 10 ELSE 0 END, 'txn' || id, 5 FROM messages`)
	db, err := sql.Open("sqlite", dsn(path, "cache_size(10)")) // most of the migration is in the files before its commit
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	text, _ := migrations.ReadFile("migrations/0007_outbox.sql")
	if _, err := tx.Exec(string(text)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(image+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if suffix != "" && len(data) < 100_000 {
			t.Errorf("the log has %d bytes only", len(data))
		}
	}
	s := open(t, image)
	if s.Migrated.From != last || s.Migrated.To != len(names) {
		t.Errorf("migrated %+v, want from %d", s.Migrated, last)
	}
	left, _, err := s.Pending(ctx, 1, 100, 1<<30, nil)
	if err != nil || len(left) != 11 || left[0].ID != 4990 || left[0].Txn != "txn4990" {
		t.Errorf("%d are on their way, %v", len(left), err)
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
		if err := sqliteDialect.migrateTo(ctx, conn, i+1, "migrations/"+names[i].Name()); err != nil {
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
		return tx.exec(`INSERT INTO schema_version (version, applied_at) VALUES (99, 0)`)
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
		if err := s.Accept(ctx, entry(1, "x")); err != nil {
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

// TestGroupCommit accepts from many goroutines at once. Every message is there, once, under its own id, and who accepts one
// after the other gets rising ids.
func TestGroupCommit(t *testing.T) {
	s := fresh(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int64]*Accept{}
	largest := 0
	for g := range 80 {
		wg.Go(func() {
			last := int64(0)
			for i := range 25 {
				a := entry(int64(g%4), fmt.Sprintf("%d.%d", g, i))
				if err := s.Accept(ctx, a); err != nil {
					t.Error(err)
					return
				}
				if a.Entry.ID <= last {
					t.Errorf("id %d after %d", a.Entry.ID, last)
				}
				last = a.Entry.ID
				mu.Lock()
				got[last] = a
				largest = max(largest, a.Batch)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != 2000 {
		t.Fatalf("%d ids", len(got))
	}
	if largest < 2 {
		t.Error("no commit had more than one message")
	}
	for room := range int64(4) {
		entries, _, err := s.Pending(ctx, room, 1000, 1<<30, nil)
		if err != nil || len(entries) != 500 {
			t.Fatalf("room %d: %d entries, %v", room, len(entries), err)
		}
		for _, e := range entries {
			if want := got[e.ID].Entry; want.Body != e.Body || e.Txn != want.Txn {
				t.Fatalf("entry %+v, want %+v", e, want)
			}
		}
	}
}

// TestAcceptRepeatedInOneCommit: a request that is repeated before the first one is committed gets the id of that one.
func TestAcceptRepeatedInOneCommit(t *testing.T) {
	s := fresh(t)
	first, again, other := entry(1, "x"), entry(1, "x"), entry(1, "y")
	first.Key, again.Key, other.Key = &Key{"k", []byte("x")}, &Key{"k", []byte("x")}, &Key{"k", []byte("y")}
	if err := s.Accept(ctx, first, again, other); err != nil {
		t.Fatal(err)
	}
	if first.Entry.ID == 0 || first.Replay || !again.Replay || again.Entry.ID != first.Entry.ID || !other.Conflict {
		t.Errorf("first %+v, repeated %+v, another one %+v", first, again, other)
	}
}

// TestAcceptAllOrNone: messages that are accepted together are stored together, also when they are more than one INSERT
// takes, and a key among them is known the second time.
func TestAcceptAllOrNone(t *testing.T) {
	s := fresh(t)
	batch := func() (all []*Accept) {
		for i := range 3*maxRows + 1 {
			all = append(all, entry(1, fmt.Sprint(i)))
		}
		all[5].Key = &Key{Key: "k", Hash: []byte("h")}
		return all
	}
	first := batch()
	if err := s.Accept(ctx, first...); err != nil {
		t.Fatal(err)
	}
	second := batch()
	second[7].Key = &Key{Key: "k", Hash: []byte("other")}
	if err := s.Accept(ctx, second...); err != nil || !second[5].Replay || second[5].Entry.ID != first[5].Entry.ID || !second[7].Conflict {
		t.Errorf("again: %+v, %+v, %v", second[5], second[7], err)
	}
	for i := 1; i < len(first); i++ {
		if first[i].Entry.ID != first[i-1].Entry.ID+1 {
			t.Errorf("message %d has id %d after %d", i, first[i].Entry.ID, first[i-1].Entry.ID)
		}
	}
	if err := s.LimitPages(ctx, 1); err != nil {
		t.Fatal(err)
	}
	before, _, _ := s.Pending(ctx, 1, 10_000, 1<<30, nil)
	third := batch()
	third[50].Entry.Body = strings.Repeat("x", 1<<20)
	if err := s.Accept(ctx, third...); err == nil {
		t.Error("accepted though the disk is full")
	}
	if after, _, _ := s.Pending(ctx, 1, 10_000, 1<<30, nil); len(after) != len(before) {
		t.Errorf("%d of them are there", len(after)-len(before))
	}
}

// TestUpdateFailsAlone makes a change fail half way, beside messages and other changes in the same commit.
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
			if err := s.Accept(ctx, entry(1, fmt.Sprint(i))); err != nil {
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
	if entries, _, err := s.Pending(ctx, 1, 100, 1<<30, nil); err != nil || len(entries) != 40 {
		t.Errorf("%d messages, %v", len(entries), err)
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

func TestPendingPages(t *testing.T) {
	s := fresh(t)
	for i := range 10 {
		if err := s.Accept(ctx, entry(1, fmt.Sprint(i)+strings.Repeat("x", 1000))); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		skip         map[int64]int64
		limit, bytes int
		first, want  int
		more         bool
	}{
		{nil, 100, 1 << 30, 1, 10, false},
		{nil, 4, 1 << 30, 1, 4, true},
		{map[int64]int64{1: 0, 2: 0, 3: 0, 4: 0}, 6, 1 << 30, 5, 6, false},
		{map[int64]int64{1: 0}, 8, 1 << 30, 2, 8, true},
		{nil, 100, 1, 1, 1, true},
		{nil, 100, 3000, 1, 3, true},
	}
	for _, test := range tests {
		got, more, err := s.Pending(ctx, 1, test.limit, test.bytes, test.skip)
		if err != nil || len(got) != test.want || more != test.more {
			t.Errorf("%+v: %d entries, more %v, %v", test, len(got), more, err)
		}
		for i, e := range got {
			if e.ID != int64(test.first+i) {
				t.Errorf("%+v: entry %d has id %d", test, i, e.ID)
			}
		}
	}
}

// TestFollowUpsComeFirst: what follows a message has its place, before messages that were accepted later.
func TestFollowUpsComeFirst(t *testing.T) {
	s := fresh(t)
	var all []*Accept
	for i := range 3 {
		all = append(all, entry(1, fmt.Sprint(i)))
	}
	if err := s.Accept(ctx, all...); err != nil {
		t.Fatal(err)
	}
	done := all[0].Entry
	done.State, done.EventID = message.StateSent, "$0"
	file := &message.Entry{Kind: message.File, After: done.ID, Room: 1, Txn: done.Txn + "f", QueuedAt: 5}
	number := s.Report(&Outcome{Entry: done, At: 7, FollowUp: file})
	if err := s.Settle(ctx); err != nil || s.Committed() != number {
		t.Fatalf("settled %d of %d, %v", s.Committed(), number, err)
	}
	got, _, err := s.Pending(ctx, 1, 10, 1<<30, nil)
	if err != nil || len(got) != 3 || got[0].Kind != message.File || got[0].After != done.ID || got[0].Body != "0" || got[0].TargetTxn != done.Txn || got[1].Body != "1" {
		t.Errorf("%d entries, %v: %+v", len(got), err, got[0])
	}
}

// TestLateOutcome: somebody withdraws a message, or gives it up, while an attempt is made at it.
func TestLateOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		late     func(tx *Tx, id int64) error
		outcome  message.State
		first    int64 // FirstAttemptAt
		want     message.State
		err      string
		followUp bool
	}{
		"withdrawn, sent":     {withdraw, message.StateSent, 5, message.StateSent, "", true},
		"withdrawn, in doubt": {withdraw, message.StateRetryWait, 5, message.StateCancelled, message.InDoubt, true},
		"withdrawn, not sent": {withdraw, message.StateRetryWait, 0, message.StateCancelled, "", false},
		"given up, sent":      {giveUp, message.StateSent, 5, message.StateSent, "", false},
		"given up, not sent":  {giveUp, message.StateRetryWait, 5, message.StateDead, "old", false},
		"removed":             {removeRow, message.StateSent, 5, "", "", false},
		"nothing, sent":       {func(*Tx, int64) error { return nil }, message.StateSent, 5, message.StateSent, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			withRoom(t, s)
			a := entry(1, "x")
			if err := s.Accept(ctx, a); err != nil {
				t.Fatal(err)
			}
			if err := s.Update(ctx, func(tx *Tx) error { return test.late(tx, a.Entry.ID) }); err != nil {
				t.Fatal(err)
			}
			e := a.Entry
			e.State, e.FirstAttemptAt = test.outcome, test.first
			if e.State == message.StateSent {
				e.EventID = "$e"
			}
			s.Report(&Outcome{Entry: e, At: 9})
			if err := s.Settle(ctx); err != nil {
				t.Fatal(err)
			}
			m, err := s.Message(ctx, a.Entry.ID)
			if m.State != test.want || m.Error != test.err || IsMissing(err) != (test.want == "") {
				t.Errorf("%s %q, %v; want %s %q", m.State, m.Error, err, test.want, test.err)
			}
			totals, err := s.Totals(ctx)
			if sent := totals[1].Sent; err != nil || (sent == 1) != (test.want == message.StateSent) {
				t.Errorf("%d are counted as sent, %v", sent, err)
			}
			left, _, err := s.Pending(ctx, 1, 10, 1<<30, nil)
			if err != nil || (len(left) == 1) != test.followUp || len(left) > 1 {
				t.Fatalf("%d are left, %v", len(left), err)
			}
			if test.followUp && (left[0].Kind != message.Redact || left[0].EventID != e.EventID || left[0].TargetTxn != e.Txn) {
				t.Errorf("left: %+v", left[0])
			}
		})
	}
}

// What is left of a message that was given up while its first event was sent is not forgotten: it is given up in its turn.
func TestLateOutcome_OfAMessageInParts_KeepsTheRest(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	a := entry(1, "x")
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	x := Expiry{Room: 1, Cutoff: a.Entry.QueuedAt + 1, Now: 7, Reason: "old", Incomplete: "not all of it"}
	if _, dead, err := s.Expire(ctx, x); err != nil || dead != 1 {
		t.Fatalf("%d given up, %v", dead, err)
	}
	e := a.Entry
	e.State, e.EventID = message.StateSent, "$e"
	s.Report(&Outcome{Entry: e, At: 9, FollowUp: &message.Entry{Kind: message.Part, After: e.ID, Room: 1, Txn: e.Txn + "p1", QueuedAt: e.QueuedAt}})
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if left, _, err := s.Pending(ctx, 1, 10, 1<<30, nil); err != nil || len(left) != 1 || left[0].Kind != message.Part {
		t.Fatalf("left: %+v, %v", left, err)
	}
	if _, _, err := s.Expire(ctx, x); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Message(ctx, e.ID); err != nil || m.State != message.StateSent || m.Error != "not all of it" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A removal, or the failure of a file, that comes after the message was asked to be delivered again does not end that.
func TestLateOutcome_OfAMessageQueuedAgain_LeavesIt(t *testing.T) {
	for name, o := range map[string]Outcome{
		"removed":     {Entry: message.Entry{Kind: message.Redact, State: message.StateSent, EventID: "$e"}},
		"not removed": {Entry: message.Entry{Kind: message.Redact, State: message.StateDead, EventID: "$e"}, Failure: "too late"},
		"no file":     {Entry: message.Entry{Kind: message.File, State: message.StateDead}, Failure: "too late"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			withRoom(t, s)
			a := entry(1, "x")
			if err := s.Accept(ctx, a); err != nil {
				t.Fatal(err)
			}
			follow := a.Entry
			follow.ID, follow.After, follow.Kind, follow.Txn = a.Entry.ID+1, a.Entry.ID, o.Entry.Kind, "t"
			err := s.Update(ctx, func(tx *Tx) error { return tx.sql.followUp(ctx, &follow) })
			if err != nil {
				t.Fatal(err)
			}
			o.Entry.ID, o.Entry.After, o.Entry.Room, o.At = follow.ID, follow.After, 1, 9
			s.Report(&o)
			if err := s.Settle(ctx); err != nil {
				t.Fatal(err)
			}
			if m, err := s.Message(ctx, a.Entry.ID); err != nil || m.State != message.StateQueued || m.Error != "" {
				t.Errorf("%s %q, %v", m.State, m.Error, err)
			}
		})
	}
}

func TestOldest(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	if at, err := s.Oldest(ctx); at != 0 || err != nil {
		t.Errorf("of an empty outbox: %d, %v", at, err)
	}
	first, second := entry(1, "x"), entry(1, "y")
	second.Entry.QueuedAt += 50
	if err := s.Accept(ctx, first, second); err != nil {
		t.Fatal(err)
	}
	if at, err := s.Oldest(ctx); at != first.Entry.QueuedAt || err != nil {
		t.Errorf("%d, %v; want %d", at, err, first.Entry.QueuedAt)
	}
	if err := s.Update(ctx, func(tx *Tx) error { return giveUp(tx, first.Entry.ID) }); err != nil {
		t.Fatal(err)
	}
	if at, err := s.Oldest(ctx); at != second.Entry.QueuedAt || err != nil {
		t.Errorf("%d, %v; want %d", at, err, second.Entry.QueuedAt)
	}
}

func withdraw(tx *Tx, id int64) error {
	_, err := tx.Withdraw(id, 1)
	return err
}

func giveUp(tx *Tx, id int64) error {
	return tx.exec(`UPDATE outbox SET state = 'dead', error = 'old', final_at = 1 WHERE id = ?`, id)
}

func removeRow(tx *Tx, id int64) error { return tx.purge([]int64{id}) }

// TestOutcomesOutliveAnError reports results while the database cannot grow; they are stored when it can.
func TestOutcomesOutliveAnError(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	a := entry(1, "x")
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		if err := s.LimitPages(ctx, pages); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	done := a.Entry
	done.State, done.Error, done.Wire = message.StateDead, "refused", []byte(strings.Repeat("w", 100_000))
	number := s.Report(&Outcome{Entry: done, At: 1})
	if err := s.Settle(ctx); err == nil || s.Committed() >= number {
		t.Errorf("settled: %v, %d committed", err, s.Committed())
	}
	<-s.Changes()
	if _, failure := s.TakeChanges(); failure == nil {
		t.Error("nobody is told")
	}
	if m, err := s.Message(ctx, done.ID); err != nil || m.State != message.StateQueued {
		t.Fatalf("while it cannot be stored: %+v, %v", m.State, err)
	}
	limit(1 << 30)
	for range 200 {
		if m, err := s.Message(ctx, done.ID); err == nil && m.State == message.StateDead && s.Committed() == number {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the result was lost")
}

func TestClosedStoreTakesNothing(t *testing.T) {
	s := fresh(t)
	var wg sync.WaitGroup
	stored := make(chan int64, 1000)
	for range 20 {
		wg.Go(func() {
			for {
				a := entry(1, "x")
				err := s.Accept(ctx, a)
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

// TestPurgeOld_DeliveredAgainMeanwhile_Stays: between the look and the removal somebody may ask for another delivery.
func TestPurgeOld_DeliveredAgainMeanwhile_Stays(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	again, gone := entry(1, "again"), entry(1, "gone")
	if err := s.Accept(ctx, again, gone); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Accept{again, gone} {
		e := a.Entry
		e.State = message.StateDead
		s.Report(&Outcome{Entry: e, At: 1})
	}
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	var purge sync.WaitGroup
	err := s.Update(ctx, func(tx *Tx) error {
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
		ok, err := tx.Requeue(again.Entry.ID, again.Entry.AcceptedAt, "", message.StateDead)
		if !ok {
			t.Error("it is not queued again")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	purge.Wait()
	if m, err := s.Message(ctx, again.Entry.ID); err != nil || m.State != message.StateQueued {
		t.Errorf("delivered again: %+v, %v", m, err)
	}
	if _, err := s.Message(ctx, gone.Entry.ID); !IsMissing(err) {
		t.Errorf("the other one: %v", err)
	}
}
