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

	"slipway/relay/internal/post"
)

// fill writes something into each table.
func fill(t *testing.T, s *Store) {
	t.Helper()
	withRoom(t, s)
	var all []*Incoming
	for i := range 2*copyRows + 100 {
		a := entry(1, fmt.Sprint("text ", i, " äöü"))
		if i%3 == 0 {
			a.Key = &Key{Key: fmt.Sprint("k", i), Hash: []byte{0, byte(i), 255}}
		}
		a.Entry.Extras = strings.Repeat(`{"a":1}`, i%2)
		all = append(all, a)
	}
	for part := range slices.Chunk(all, 100) {
		insert(t, s, part...)
	}
	sent, dead, waits := all[0].Entry, all[1].Entry, all[2].Entry
	waits.Wire, waits.Cut = []byte{0, 1, 0xff}, true
	s.Record(NewOutcome(sent, post.Sent{EventID: "$1", Rest: []post.Entry{sent.AsFile(5)}}, 7))
	s.Record(NewOutcome(dead, post.Refused{Reason: "no", Code: "M_NO"}, 8))
	s.Record(NewOutcome(waits, post.Unanswered{Began: 5, Device: "DEV"}, 9))
	err := errors.Join(
		s.Settle(ctx), s.Update(ctx, func(tx *Tx) error {
			return tx.SetImage(Image{ApplicationID: 1, Type: "image/png", Data: []byte{0x89, 0, 'P'}})
		}), s.SetSetting(ctx, "matrix.session", `{"x":"y"}`),
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

// fillKeyed writes more rows than one part takes into the tables that have no ids.
func fillKeyed(tx *Tx) error {
	const rows = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201) `
	const text = `substr('aB_-Zä', i % 6 + 1, 1) || i`
	return errors.Join(
		tx.exec(`INSERT INTO sessions (token_hash, user_id, csrf, created_at, expires_at) `+rows+`SELECT CAST(`+text+` AS BLOB), 1, 'c', i, i FROM n`),
		tx.exec(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) `+rows+`SELECT i % 3, `+text+`, x'00ff', i, 0, i FROM n`),
		tx.exec(`INSERT INTO stats (hour, application_id, accepted) `+rows+`SELECT 1000 + i / 3, i % 3, i FROM n`),
		tx.exec(`INSERT INTO pending_joins (room_id) `+rows+`SELECT '!' || `+text+` FROM n`),
		tx.exec(`INSERT INTO settings (key, value) `+rows+`SELECT `+text+`, 'v' FROM n`),
		tx.exec(`INSERT INTO idempotency (application_id, key, hash, message_id, priority, created_at) VALUES (1, CAST(x'61ff' AS TEXT), x'01', 1, 0, 1)`), // no UTF-8
	)
}

// dump is all that is copied of a database, and the last ids.
func dump(t *testing.T, s *Store) (lines []string) {
	t.Helper()
	for _, table := range copied {
		columns, err := s.columns(ctx, table)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(columns, func(a, b column) int { return strings.Compare(a.name, b.name) })
		rows, err := s.read.QueryContext(ctx, `SELECT `+names(columns)+` FROM `+table)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for part := [][]any{nil}; len(part) > 0; {
			if part, err = scanPart(rows, columns); err != nil {
				t.Fatal(err)
			}
			for _, row := range part {
				line := table
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
		}
		if slices.ContainsFunc(columns, func(c column) bool { return c.name == "id" }) {
			var n int64
			if err := s.queryRow(ctx, s.d.lastID, table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(table, " last ", n))
		}
	}
	return lines
}

// Each table is copied, except the version of the schema.
func TestCopied(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	rows, err := s.read.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'schema_version'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	wantSame(t, all, slices.Clone(copied))
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

// testCopy takes a database from SQLite to PostgreSQL and back, each after an interruption.
func testCopy_ThereAndBack_Interrupted_NothingIsLost(t *testing.T) {
	first := open(t, filepath.Join(t.TempDir(), "first.db"))
	fill(t, first)
	want := dump(t, first)
	middle, err := OpenPostgres(ctx, Postgres{DSN: postgresServer.Database(t), Shared: true, Name: "copy", Application: "test-copy"})
	if err != nil {
		t.Fatal(err)
	}
	defer middle.Close()
	last := open(t, filepath.Join(t.TempDir(), "last.db"))
	for _, step := range []struct{ from, to *Store }{{first, middle}, {middle, last}} {
		cut, interrupt := context.WithCancel(ctx)
		err := Copy(cut, step.from, step.to, func(table string, _ int64) {
			if table == "outbox" {
				interrupt()
			}
		})
		interrupt()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted copy: %v", err)
		}
		if got := dump(t, step.to); slices.ContainsFunc(got, func(line string) bool { return !strings.Contains(line, " last ") }) {
			t.Errorf("an interrupted copy leaves %q …", got[0])
		}
		if lease, err := middle.ReadLease(ctx); err != nil || lease.Held {
			t.Errorf("an interrupted copy keeps the lease: %+v, %v", lease, err)
		}
		if err := Copy(ctx, step.from, step.to, func(string, int64) {}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, want, dump(t, step.to))
		if lease, err := middle.ReadLease(ctx); err != nil || lease.Held {
			t.Errorf("a copy keeps the lease: %+v, %v", lease, err)
		}
	}
	next, again := entry(1, "next"), entry(1, "again")
	if err := errors.Join(first.Insert(ctx, next), last.Insert(ctx, again)); err != nil || next.Entry.ID != again.Entry.ID {
		t.Errorf("the next id is %d, in the copy %d, %v", next.Entry.ID, again.Entry.ID, err)
	}
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
	if to.Held() {
		t.Error("a refused copy keeps the lease")
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
}
