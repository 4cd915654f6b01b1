package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/message"
)

// fill writes something into each table.
func fill(t *testing.T, s *Store) {
	t.Helper()
	withRoom(t, s)
	var all []*Accept
	for i := range 2*copyRows + 100 {
		a := entry(1, fmt.Sprint("text ", i, " äöü"))
		if i%3 == 0 {
			a.Key = &Key{Key: fmt.Sprint("k", i), Hash: []byte{0, byte(i), 255}}
		}
		a.Entry.Extras = strings.Repeat(`{"a":1}`, i%2)
		all = append(all, a)
	}
	for part := range slices.Chunk(all, 100) {
		if err := s.Accept(ctx, part...); err != nil {
			t.Fatal(err)
		}
	}
	sent, dead, waits := all[0].Entry, all[1].Entry, all[2].Entry
	sent.State, sent.EventID = message.StateSent, "$1"
	dead.State, dead.Error, dead.Code = message.StateDead, "no", "M_NO"
	waits.State, waits.Wire, waits.Cut, waits.FirstAttemptAt, waits.Device = message.StateRetryWait, []byte{0, 1, 0xff}, true, 5, "DEV"
	file := &message.Entry{Kind: message.File, After: sent.ID, Room: 1, Txn: "f", QueuedAt: 5}
	s.Report(&Outcome{Entry: sent, At: 7, FollowUp: file})
	s.Report(&Outcome{Entry: dead, At: 8})
	s.Report(&Outcome{Entry: waits})
	err := errors.Join(
		s.Settle(ctx), s.SetImage(ctx, Image{ApplicationID: 1, Type: "image/png", Data: []byte{0x89, 0, 'P'}}), s.SetSetting(ctx, "matrix.session", `{"x":"y"}`),
		s.CreateSession(ctx, Session{TokenHash: []byte{1, 0, 2}, UserID: 1, CSRF: "c", CreatedAt: 1, ExpiresAt: 2}),
		s.SavePendingJoin(ctx, PendingJoin{RoomID: "!j", Inviter: "@i"}),
		s.Update(ctx, func(tx *Tx) error {
			return errors.Join(tx.SaveUser(&User{Name: "admin", IsAdmin: true, CreatedAt: 2}), tx.purge([]int64{all[len(all)-1].Entry.ID}))
		}),
		s.Update(ctx, fillKeyed),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hours(ctx, 0, 0); err != nil { // has the counts written
		t.Fatal(err)
	}
}

// fillKeyed writes more rows than one part takes into the tables that have no ids. Their keys are of all kinds; which of two
// comes first is for each database to say.
func fillKeyed(tx *Tx) error {
	const rows = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201) `
	const text = `substr('aB_-Zä', i % 6 + 1, 1) || i`
	return errors.Join(
		tx.exec(`INSERT INTO sessions (token_hash, user_id, csrf, created_at, expires_at) `+rows+`SELECT CAST(`+text+` AS BLOB), 1, 'c', i, i FROM n`),
		tx.exec(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) `+rows+`SELECT i % 3, `+text+`, x'00ff', i, 0, i FROM n`),
		tx.exec(`INSERT INTO stats (hour, application_id, accepted) `+rows+`SELECT i / 3, i % 3, i FROM n`),
		tx.exec(`INSERT INTO pending_joins (room_id) `+rows+`SELECT '!' || `+text+` FROM n`),
		tx.exec(`INSERT INTO settings (key, value) `+rows+`SELECT `+text+`, 'v' FROM n`),
		tx.exec(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) VALUES (1, CAST(x'61ff' AS TEXT), x'01', 1, 0, 1)`), // no UTF-8
	)
}

// dump is all that is copied of a database, and the last ids.
func dump(t *testing.T, s *Store) (lines []string) {
	t.Helper()
	for _, table := range copied {
		columns, err := s.columns(ctx, table.name)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(columns, func(a, b column) int { return strings.Compare(a.name, b.name) })
		var rows [][]any
		for after := []keyValue(nil); ; {
			part, last, err := s.part(ctx, table, columns, after)
			if err != nil {
				t.Fatal(err)
			}
			if len(part) == 0 {
				break
			}
			rows, after = append(rows, part...), last
		}
		for _, row := range rows {
			line := table.name
			for i, v := range row {
				switch b := v.(type) {
				case bool:
					v = map[bool]int64{true: 1}[b]
				case []byte:
					v = hex.EncodeToString(b)
				}
				line += fmt.Sprintf(" %s=%v", columns[i].name, v)
			}
			lines = append(lines, line)
		}
		if table.numbered() {
			n, err := s.lastID(ctx, table.name)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(table.name, " last ", n))
		}
	}
	return lines
}

func wantSame(t *testing.T, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("%s\nwant\n%s", got[i], want[i])
		}
	}
	if len(want) != len(got) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// TestCopy takes a database from SQLite to PostgreSQL, interrupted after each part, and back.
func testCopy_ThereAndBack_Interrupted_NothingIsLost(t *testing.T) {
	first := open(t, filepath.Join(t.TempDir(), "first.db"))
	fill(t, first)
	want := dump(t, first)
	target := Postgres{DSN: postgresServer.Database(t), Shared: true, Name: "copy", Application: "test-copy"}
	runs := 0
	for over := false; !over; runs++ {
		to, err := OpenPostgres(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		cut, interrupt := context.WithCancel(ctx)
		err = Copy(cut, first, to, func(table string, rows int64) {
			if rows > copyRows {
				t.Errorf("%d rows of %s were copied at once", rows, table)
			}
			interrupt()
		})
		over = err == nil
		if !over && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if !over && to.Use(ctx) == nil {
			t.Error("a relay may use what is copied in part only")
		}
		interrupt()
		// The lease of an interrupted run expires.
		if err := postgresServer.Exec(ctx, databaseOf(target.DSN), `UPDATE lease SET expires_at = '-infinity'`); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		if runs > 50 {
			t.Fatal("it never ends")
		}
	}
	middle, err := OpenPostgres(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	defer middle.Close()
	if err := middle.Use(ctx); err != nil {
		t.Error(err)
	}
	wantSame(t, want, dump(t, middle))
	last := open(t, filepath.Join(t.TempDir(), "last.db"))
	back := 0
	for over := false; !over; back++ {
		cut, interrupt := context.WithCancel(ctx)
		err = Copy(cut, middle, last, func(string, int64) { interrupt() })
		interrupt()
		if over = err == nil; !over && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if back != runs {
		t.Errorf("interrupted %d times on the way back, %d on the way there", back, runs)
	}
	wantSame(t, want, dump(t, last))
	next, again := entry(1, "next"), entry(1, "again")
	if err := errors.Join(first.Accept(ctx, next), last.Accept(ctx, again)); err != nil || next.Entry.ID != again.Entry.ID {
		t.Errorf("the next id is %d, in the copy %d, %v", next.Entry.ID, again.Entry.ID, err)
	}
}

func databaseOf(dsn string) string {
	_, name, _ := strings.Cut(dsn, "dbname=")
	name, _, _ = strings.Cut(name, " ")
	return name
}

func testCopy_Refused(t *testing.T) {
	nothing := func(string, int64) {}
	from := open(t, filepath.Join(t.TempDir(), "from.db"))
	fill(t, from)
	full := open(t, filepath.Join(t.TempDir(), "full.db"))
	withRoom(t, full)
	if err := Copy(ctx, from, full, nothing); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into what is not empty: %v", err)
	}
	dsn := postgresServer.Database(t)
	relay, err := OpenPostgres(ctx, Postgres{DSN: dsn, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	to, err := OpenPostgres(ctx, Postgres{DSN: dsn, Shared: true, Application: "test-copy"})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := Copy(ctx, from, to, nothing); err == nil || !strings.Contains(err.Error(), "stop all of them") {
		t.Errorf("beside a relay: %v", err)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	// A relay uses the source between two runs.
	cut, interrupt := context.WithCancel(ctx)
	defer interrupt()
	for { // the server may need a moment to see that the relay is gone
		if err = Copy(cut, from, to, func(string, int64) { interrupt() }); err == nil || !strings.Contains(err.Error(), "stop all of them") {
			break
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := from.Use(ctx); err != nil {
		t.Fatal(err)
	}
	if err := Copy(ctx, from, to, nothing); err == nil || !strings.Contains(err.Error(), "begin again") {
		t.Errorf("of what a relay has used since: %v", err)
	}
}
