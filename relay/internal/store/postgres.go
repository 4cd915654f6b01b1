package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

// postgresDialect is what PostgreSQL says in its own words.
var postgresDialect = &dialect{
	name: "postgres", begin: `BEGIN`, crossJoin: `JOIN`, like: `ILIKE`, forUpdate: ` FOR UPDATE`, numbered: true,
	migrations: postgresMigrations, folder: "migrations/postgres",
	tables:  `SELECT count(*), count(*) FILTER (WHERE tablename = 'schema_version') FROM pg_tables WHERE schemaname = current_schema()`,
	foreign: "the database is one of something else (it has tables, but none named schema_version): give the relay a database or a schema of its own",
	gorm:    func(pool gorm.ConnPool) gorm.Dialector { return postgres.New(postgres.Config{Conn: pool}) },
}

// PostgreSQL's codes of errors that mean something here (appendix A of its manual).
const (
	pgUniqueViolation  = "23505"
	pgReadOnly         = "25006"
	pgInvalidRole      = "28000"
	pgInvalidPassword  = "28P01"
	pgNoDatabase       = "3D000"
	pgNoSchema         = "3F000"
	pgSerialization    = "40001"
	pgDeadlock         = "40P01"
	pgNoPrivilege      = "42501"
	pgTooMany          = "53300"
	pgDiskFull         = "53100"
	pgStartingUp       = "57P03"
	pgAdminShutdown    = "57P01"
	pgIdleInTransation = "25P03"
)

const relayApplication = "slipway-relay"

const (
	connectWithin  = 5 * time.Second
	transactWithin = 10 * time.Second // a commit that takes longer is given up with its connection
	lockWithin     = "8000"           // milliseconds; less than transactWithin
	migrateLock    = 0x736c6970       // advisory lock: one relay migrates
	writers        = 8                // the writer's connection, and those for counts and for announcements
	readers        = 8
	leasers        = 2 // connections for the lease, which must not wait for what senders and guessers cause
)

// Postgres says which PostgreSQL database to open.
type Postgres struct {
	DSN      string // keywords and values, or a URL
	Password string // if it is not in the DSN
	Shared   bool   // other relays may use the database at the same time
	Name     string // of this relay, to be shown as the one that delivers

	Application string // what PostgreSQL shows the connections as; "" for a relay
}

// OpenPostgres opens a database of PostgreSQL, which has to be there, and brings its schema up to date.
func OpenPostgres(ctx context.Context, o Postgres) (*Store, error) {
	s := &Store{d: postgresDialect, feed: newFeed()}
	s.feed.reads = true
	if err := s.openPostgres(ctx, o); err != nil {
		return nil, errors.Join(explain(err), s.release())
	}
	return s, nil
}

func (s *Store) openPostgres(ctx context.Context, o Postgres) error {
	cfg, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		return errors.New("the connection is not understood: " + reasonOfParse(err))
	}
	if o.Password != "" {
		cfg.Password = o.Password
	}
	prepareConfig(cfg, cmp.Or(o.Application, relayApplication))
	reading := cfg.Copy()
	reading.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error { // no parameter: target_session_attrs looks at that
		return c.Exec(ctx, `SET default_transaction_read_only = on`).Close()
	}
	for _, p := range []struct {
		cfg  *pgx.ConnConfig
		most int
	}{{cfg, writers}, {reading, readers}, {cfg, leasers}} {
		db := sql.OpenDB(stdlib.GetConnector(*p.cfg))
		db.SetMaxOpenConns(p.most)
		db.SetMaxIdleConns(p.most)
		s.pools = append(s.pools, db)
	}
	s.leases = s.pools[2]
	if err := s.attach(ctx); err != nil {
		return err
	}
	if o.Shared {
		s.w.shared = true
		s.shared = startShared(o.Name, rand.Text(), s.pools[0], cfg, s.feed)
	}
	return nil
}

// prepareConfig adds what connections of relays need.
func prepareConfig(cfg *pgx.ConnConfig, application string) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectWithin
	}
	p := cfg.RuntimeParams
	p["application_name"] = application
	// A relay that is stopped or cut off in the middle of a transaction must not hold its locks for long.
	p["idle_in_transaction_session_timeout"] = "5000"
	p["lock_timeout"] = lockWithin
	cfg.DialFunc = (&net.Dialer{
		Timeout: cfg.ConnectTimeout, Control: dropDeaf,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}).DialContext
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		// What is accepted is flushed to disk: the default of a server that does not wait is changed.
		return c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`).Close()
	}
}

// alone runs do while no other relay migrates.
func alone(ctx context.Context, conn *sql.Conn, do func() error) error {
	const wait = `SELECT set_config('lock_timeout', $1, false)`
	if _, err := conn.ExecContext(ctx, wait, "0"); err != nil { // a migration may take its time
		return err
	}
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, wait, lockWithin)
	if err == nil {
		err = do()
	}
	_, unlock := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, migrateLock)
	return errors.Join(err, unlock)
}

// lost reports whether a connection is of no use after an error: it is closed, or leads to a server that only reads now.
func lost(conn *sql.Conn, err error) bool {
	if codeOf(err) == pgReadOnly {
		return true
	}
	closed := true
	_ = conn.Raw(func(c any) error { // fails when it is closed
		closed = c.(*stdlib.Conn).Conn().IsClosed()
		return nil
	})
	return closed
}

// again reports whether a transaction failed because of another one, and may succeed now.
func again(err error) bool {
	code := codeOf(err)
	return code == pgDeadlock || code == pgSerialization
}

func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// explain puts what PostgreSQL or the network says into a sentence for whoever runs the relay.
func explain(err error) error {
	if err == nil {
		return nil
	}
	for code, text := range map[string]string{
		pgInvalidPassword: "PostgreSQL refuses the user or the password",
		pgInvalidRole:     "PostgreSQL refuses the user",
		pgNoDatabase:      "the database does not exist: create it first (CREATE DATABASE … OWNER …)",
		pgNoSchema:        "the schema does not exist: create it first (CREATE SCHEMA …)",
		pgNoPrivilege:     "the user may not do this in the database: let it own the database, or grant it CREATE on the schema",
		pgReadOnly:        "the server is a read-only standby: name the primary, or several hosts with target_session_attrs=read-write",
		pgTooMany:         "PostgreSQL has too many connections: raise max_connections",
		pgDiskFull:        "the disk of PostgreSQL is full",
		pgStartingUp:      "PostgreSQL is starting up or shutting down",
		pgAdminShutdown:   "PostgreSQL is shutting down",
	} {
		if codeOf(err) == code {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	var connect *pgconn.ConnectError
	switch {
	case strings.Contains(err.Error(), "read only connection"):
		return fmt.Errorf("no server takes changes; all are read-only standbys: %w", err)
	case errors.As(err, &connect):
		return fmt.Errorf("cannot connect to PostgreSQL: %w", err)
	}
	return err
}

// IsAway reports whether a database of PostgreSQL could not be opened because its server does not answer or does not serve yet.
func IsAway(err error) bool {
	var connect *pgconn.ConnectError
	code := codeOf(err)
	return code == pgStartingUp || code == pgAdminShutdown || code == "" && errors.As(err, &connect)
}

// reasonOfParse is why a DSN is not understood, without the DSN, which may hold a password.
func reasonOfParse(err error) string {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		return parse.Unwrap().Error()
	}
	return "see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING"
}

// refuseRows makes the database refuse new rows in the outbox, and changes of those that are there. It is for tests.
func (s *Store) refuseRows(ctx context.Context, refuse bool) error {
	return s.Update(ctx, func(tx *Tx) error {
		if err := tx.exec(`DROP TRIGGER IF EXISTS full_disk ON outbox`); err != nil || !refuse {
			return err
		}
		return errors.Join(
			tx.exec(`CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE disk_full; END $f$`),
			tx.exec(`CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON outbox EXECUTE FUNCTION full_disk()`),
		)
	})
}
