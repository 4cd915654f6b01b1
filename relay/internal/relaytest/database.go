package relaytest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"slipway/relay/internal/servertest"
	"slipway/relay/internal/store"
)

// postgres runs while the tests run on PostgreSQL.
var postgres *servertest.Postgres

// Main runs a package's tests on SQLite, and on PostgreSQL those that [servertest.Again] names. It returns the exit code.
func Main(m *testing.M) int {
	return servertest.OnSQLite(m, func(s *servertest.Postgres) { postgres = s })
}

// OnPostgres reports whether the tests run on PostgreSQL now.
func OnPostgres() bool { return postgres != nil }

// SQLiteOnly skips a test of what only SQLite does.
func SQLiteOnly(t testing.TB) {
	t.Helper()
	if OnPostgres() {
		t.Skip("this is the run on PostgreSQL; the package's tests ran on SQLite before")
	}
}

// PostgresOnly skips a test of what only PostgreSQL does.
func PostgresOnly(t testing.TB) {
	t.Helper()
	if !OnPostgres() {
		t.Skip("this is the run on SQLite; the package's tests run again on PostgreSQL")
	}
}

// NewDatabase returns the path of a new SQLite database, or the DSN of one in PostgreSQL.
func NewDatabase(t testing.TB) string {
	t.Helper()
	if OnPostgres() {
		return postgres.Database(t)
	}
	return filepath.Join(t.TempDir(), "relay.db")
}

func isDSN(where string) bool { return strings.HasPrefix(where, "host=") }

// OpenStore opens a database that NewDatabase has named.
func OpenStore(where string, shared bool) (*store.Store, error) {
	if isDSN(where) {
		return store.OpenPostgres(context.Background(), store.Postgres{DSN: where, Shared: shared, Name: "this relay"})
	}
	return store.Open(context.Background(), where)
}

// OpenDatabase opens a database that NewDatabase has named, next to the store.
func OpenDatabase(where string) (*sql.DB, error) {
	if isDSN(where) {
		return sql.Open("pgx", where)
	}
	return sql.Open("sqlite", where+"?_pragma=busy_timeout(10000)")
}

// Exec runs a statement on a connection of its own and scans the row that it returns into into, if any.
func (r *Rig) Exec(text string, into ...any) {
	r.T.Helper()
	db, err := OpenDatabase(r.Path)
	if err != nil {
		r.T.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if len(into) > 0 {
		err = db.QueryRowContext(context.Background(), text).Scan(into...)
	} else {
		_, err = db.ExecContext(context.Background(), text)
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

// FillDisk makes the database refuse new and changed entries, as a full disk would, or ends that.
func (r *Rig) FillDisk(full bool) {
	r.T.Helper()
	statements := []string{`DROP TRIGGER full_insert`, `DROP TRIGGER full_update`}
	switch {
	case full && OnPostgres():
		statements = []string{
			`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE disk_full; END $f$`,
			`CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON outbox EXECUTE FUNCTION full_disk()`,
		}
	case OnPostgres():
		statements = []string{`DROP FUNCTION full_disk() CASCADE`}
	case full:
		statements = []string{
			`CREATE TRIGGER full_insert BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
			`CREATE TRIGGER full_update BEFORE UPDATE ON outbox BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
		}
	}
	for _, text := range statements {
		r.Exec(text)
	}
}

// Kill ends the service as kill -9 would, losing everything that is not stored. The rig continues with the stored data.
func (r *Rig) Kill() {
	r.T.Helper()
	if isDSN(r.Path) {
		r.cutOff()
		return
	}
	to := filepath.Join(r.T.TempDir(), "relay.db")
	err := r.Options.Store.Update(context.Background(), func(*store.Tx) error { // nothing is written meanwhile
		return r.CopyDatabase(to)
	})
	if err != nil {
		r.T.Fatal(err)
	}
	r.Crash()
	r.Path = to
}

// CopyDatabase copies the files of an SQLite database as they are, as a kill would leave them.
func (r *Rig) CopyDatabase(to string) error {
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(r.Path + suffix)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cutOff ends the service after its connections.
func (r *Rig) cutOff() {
	r.T.Helper()
	_, name, _ := strings.Cut(r.Path, "dbname=")
	name, _, _ = strings.Cut(name, " ")
	run := func(statement string) {
		if err := postgres.Exec(context.Background(), "postgres", statement); err != nil {
			r.T.Fatal(err)
		}
	}
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`)
	run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + name + `'`)
	r.Stop()
	_ = r.Options.Store.Close() // its connections are gone, so it stores nothing more
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS true`)
	r.Service = nil
}
