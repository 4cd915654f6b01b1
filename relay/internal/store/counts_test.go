package store

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// TestMigrateCounts: a database of the first schema knows what its retention has
// removed by what its totals have beyond its messages.
func TestMigrateCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	first, err := migrations.ReadFile("migrations/0001_first.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{
		string(first), `INSERT INTO schema_version VALUES (1, 0)`,
		`INSERT INTO users (id, name, password_hash, created_at) VALUES (1, 'u', '', 0)`,
		`INSERT INTO rooms (id, address) VALUES (1, '!a')`,
		`INSERT INTO applications (id, owner_id, name, room_id, created_at, accepted, sent) VALUES (1, 1, 'a', 1, 0, 10, 8), (2, 1, 'b', 1, 0, 0, 0)`,
		`INSERT INTO messages (id, application_id, accepted_at, priority, source, title, body, content_type) VALUES (1, 1, 0, 0, '', '', '', ''), (2, 1, 0, 0, '', '', '', ''), (3, 2, 0, 0, '', '', '', '')`,
		`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at) VALUES (1, 1, 0, 1, 10, 'a', 0), (2, 2, 0, 1, 0, 'b', 0), (3, 3, 0, 1, 14, 'c', 0)`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Migrated.From != 1 || s.Migrated.To < 2 {
		t.Errorf("migrated %+v", s.Migrated)
	}
	if err := s.Recount(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	totals, err := s.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := totals[1], totals[2]; a.Accepted != 10 || a.Sent != 8 || b.Accepted != 1 || b.Sent != 1 {
		t.Errorf("counted %d/%d and %d/%d, want 10/8 and 1/1", a.Accepted, a.Sent, b.Accepted, b.Sent)
	}
}

// TestMigrateReasons: what failed before a message was delivered is not told of it any
// more, and what is wrong with its file or its removal is.
func TestMigrateReasons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var texts []string
	for _, name := range []string{"0001_first.sql", "0002_counts.sql"} {
		text, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	rows := []struct {
		state     int
		was, want string
	}{
		{10, "the homeserver failed", ""},
		{10, "The message was cut, and its full text could not be attached: no.", "The message was cut, and its full text could not be attached: no."},
		{10, "The event could not be removed from the room: no.", "The event could not be removed from the room: no."},
		{12, "the homeserver failed", "the homeserver failed"},
		{1, "the homeserver failed", "the homeserver failed"},
	}
	for _, text := range append(texts, `INSERT INTO schema_version VALUES (1, 0), (2, 0)`) {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, row := range rows {
		_, err := db.Exec(`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at, error, code) VALUES (?, ?, 0, 1, ?, 't', 0, ?, 'M_X')`, i+1, i+1, row.state, row.was)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	for i, row := range rows {
		var got, code string
		if err := s.read.QueryRowContext(ctx, `SELECT error, code FROM outbox WHERE id = ?`, i+1).Scan(&got, &code); err != nil {
			t.Fatal(err)
		}
		if got != row.want || (code == "") != (row.want == "") {
			t.Errorf("the reason %q of state %d is %q %q, want %q", row.was, row.state, got, code, row.want)
		}
	}
}
