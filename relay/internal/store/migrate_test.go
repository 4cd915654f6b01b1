package store

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

// A room that an earlier edition called parked is blocked, for the same reason and since the same time.
func TestMigrate_ParkedRooms_AreBlocked(t *testing.T) {
	const rooms = `INSERT INTO rooms (id, address, parked, parked_as, parked_at) VALUES
		(1, '!refused', 'forbidden', 'park', 5), (2, '!secret', 'encrypted', 'encrypted', 6), (3, '!good', '', '', 0)`
	var s *Store
	if postgresServer == nil {
		path := filepath.Join(t.TempDir(), "relay.db")
		atVersion(t, path, 8, rooms)
		s = open(t, path)
	} else {
		s = migratedPostgres(t, 1, rooms)
	}
	got, err := s.Rooms(ctx)
	want := []Room{
		{ID: 1, Address: "!refused", Blocked: "forbidden", BlockedAs: "block", BlockedAt: 5},
		{ID: 2, Address: "!secret"}, // what waits there is encrypted now
		{ID: 3, Address: "!good"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// migratedPostgres opens a database of PostgreSQL that has an earlier schema and what a statement has written there.
func migratedPostgres(t *testing.T, version int, statement string) *Store {
	t.Helper()
	dsn := postgresServer.Database(t)
	names, _ := postgresMigrations.ReadDir("migrations/postgres")
	migrateTo(t, postgresDialect, "pgx", dsn, "migrations/postgres", names[:version], statement)
	s, err := OpenPostgres(ctx, Postgres{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.Migrated.From != version || s.Migrated.To != len(names) {
		t.Errorf("migrated %+v", s.Migrated)
	}
	return s
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
	names, _ := migrations.ReadDir("migrations")
	migrateTo(t, sqliteDialect, "sqlite", dsn(path), "migrations", names[:version], statements...)
}

// migrateTo migrates a database by some files of a folder, and runs statements in it.
func migrateTo(t *testing.T, d *dialect, driver, dsn, folder string, files []fs.DirEntry, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, f := range files {
		if err := d.migrateTo(ctx, conn, i+1, folder+"/"+f.Name()); err != nil {
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
