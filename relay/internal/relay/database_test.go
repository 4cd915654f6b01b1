package relay

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"slipway/relay/internal/pgtest"
	"slipway/relay/internal/store"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(childEnv); where != "" {
		child(where)
		return
	}
	os.Exit(pgtest.OnBoth(m, func(s *pgtest.Server) { postgresServer = s }))
}

// postgresServer is there while the tests run on PostgreSQL.
var postgresServer *pgtest.Server

func onPostgres() bool { return postgresServer != nil }

// newDatabase returns where a database is, of the kind that is tested now.
func newDatabase(t testing.TB) string {
	t.Helper()
	if onPostgres() {
		return postgresServer.Database(t)
	}
	return filepath.Join(t.TempDir(), "relay.db")
}

// oneDatabase are tests of what only one of the databases does.
type oneDatabase []struct {
	name string
	run  func(*testing.T)
}

var onlySQLite = oneDatabase{
	{"Killed_ResultsNotStored_EachMessageArrivesOnce", testKilled_ResultsNotStored_EachMessageArrivesOnce},
	{"SecondRelayIsRefused", testSecondRelayIsRefused},
	{"Stop_ResultsCannotBeStored_EachMessageArrivesOnce", testStop_ResultsCannotBeStored_EachMessageArrivesOnce},
}

var onlyPostgres = oneDatabase{
	{"Lease_BeginningFails_IsGivenBack", testLease_BeginningFails_IsGivenBack},
	{"Lease_TakenByAnother_NothingIsSentUntilItIsFree", testLease_TakenByAnother_NothingIsSentUntilItIsFree},
	{"Token_MadeByAnother_IsKnownAtOnce", testToken_MadeByAnother_IsKnownAtOnce},
}

// TestOneDatabase runs the tests of the database that is tested now.
func TestOneDatabase(t *testing.T) {
	tests := onlySQLite
	if onPostgres() {
		tests = onlyPostgres
	}
	for _, test := range tests {
		t.Run(test.name, test.run)
	}
}

func isDSN(where string) bool { return strings.HasPrefix(where, "host=") }

func openStore(where string, shared bool) (*store.Store, error) {
	if isDSN(where) {
		return store.OpenPostgres(context.Background(), store.Postgres{DSN: where, Shared: shared, Name: "this relay"})
	}
	return store.Open(context.Background(), where)
}

func openDatabase(where string) (*sql.DB, error) {
	if isDSN(where) {
		return sql.Open("pgx", where)
	}
	return sql.Open("sqlite", where)
}

// image ends the service as kill -9 would: what it has not stored yet is lost. The rig goes on with what is stored.
func (r *rig) image() {
	r.t.Helper()
	if isDSN(r.path) {
		r.cutOff()
		return
	}
	to := filepath.Join(r.t.TempDir(), "relay.db")
	err := r.store.Update(context.Background(), func(*store.Tx) error { // nothing is written meanwhile
		return r.copyDatabase(to)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.crash()
	r.path = to
}

// cutOff ends the service after its connections.
func (r *rig) cutOff() {
	r.t.Helper()
	_, name, _ := strings.Cut(r.path, "dbname=")
	name, _, _ = strings.Cut(name, " ")
	run := func(statement string) {
		if err := postgresServer.Exec(context.Background(), "postgres", statement); err != nil {
			r.t.Fatal(err)
		}
	}
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`)
	run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + name + `'`)
	r.stop()
	_ = r.store.Close() // what it has still to store it cannot
	run(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS true`)
	r.Service = nil
}
