package store

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"slipway/relay/internal/lease"
)

//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

var postgresDatabase = &database{
	dialect: postgresDialect{}, begin: `BEGIN`, within: transactWithin,
	migrations: postgresMigrations, folder: "migrations/postgres",
	tables:     `SELECT count(*), count(*) FILTER (WHERE tablename = 'schema_version') FROM pg_tables WHERE schemaname = current_schema()`,
	foreign:    "the database is one of something else (it has tables, but none named schema_version): give the relay a database or a schema of its own",
	lastID:     `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(?, 'id')::regclass), 0)`,
	continueID: `SELECT setval(pg_get_serial_sequence(?, 'id'), ?)`,
	writing: `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND relation = 'outbox'::regclass AND mode = 'RowExclusiveLock' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
}

// postgresDialect is PostgreSQL's.
type postgresDialect struct{}

func (postgresDialect) over(pool gorm.ConnPool) gorm.Dialector {
	return postgres.New(postgres.Config{Conn: pool})
}

func (postgresDialect) bind(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 16)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

// prepare turns off what suits other databases. Statements are prepared while the tables are small, and their plans must suit large
// ones. A scan that remains is priced so high then that PostgreSQL would compile it, which takes longer than any statement here.
func (postgresDialect) prepare(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)`)
	return err
}

// alone takes an advisory lock. A migration may take its time.
func (postgresDialect) alone(ctx context.Context, conn *sql.Conn, do func() error) error {
	const wait = `SELECT set_config('lock_timeout', $1, false)`
	if _, err := conn.ExecContext(ctx, wait, "0"); err != nil {
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

// lock locks the rows in the order of their ids: an UPDATE alone doesn't fix an order.
func (postgresDialect) lock(ctx context.Context, conn *sql.Conn, table string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := conn.ExecContext(ctx, `SELECT 1 FROM `+table+` WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, ids)
	return err
}

func (postgresDialect) judge(conn *sql.Conn, err error) verdict {
	code := codeOf(err)
	return verdict{err: explain(err), again: code == pgDeadlock || code == pgSerialization, lost: conn != nil && err != nil && lost(conn, err)}
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

	readWithin time.Duration // 0 means readWithin
}

// OpenPostgres opens a PostgreSQL database, which must exist, and brings its schema up to date.
func OpenPostgres(ctx context.Context, o Postgres) (*Store, error) {
	s := newStore(postgresDatabase)
	s.feed.reads = true
	if err := s.openPostgres(ctx, o); err != nil {
		return nil, errors.Join(explain(err), s.release())
	}
	return s, nil
}

func (s *Store) openPostgres(ctx context.Context, o Postgres) error {
	cfg, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		return errors.New("cannot parse the connection string: " + reasonOfParse(err))
	}
	if o.Password != "" {
		cfg.Password = o.Password
	}
	prepareConfig(cfg, cmp.Or(o.Application, relayApplication))
	s.read.server = cmp.Or(o.readWithin, readWithin)
	reading := cfg.Copy()
	dial := reading.DialFunc
	reading.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: c, within: s.read.server}, nil
	}
	reading.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error { // not by a connection parameter: target_session_attrs=read-write would refuse the server
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
	if err := s.attach(ctx); err != nil {
		return err
	}
	if o.Shared {
		s.Join(lease.Options{Name: o.Name, DB: s.pools[0], Leases: s.pools[2], Config: cfg, Explain: explain, Hear: s.feed.hear, Poll: s.poll})
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
		Timeout:         cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}).DialContext
	cfg.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		// Accepted messages are flushed to disk, also where the server's default is not to wait.
		return c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`).Close()
	}
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

func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Cause returns why PostgreSQL or the network has failed, in words for the operator that hold no secret; "" if that is unknown.
func Cause(err error) string {
	texts := map[string]string{
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
	}
	switch text := texts[codeOf(err)]; {
	case err == nil:
		return ""
	case text != "":
		return text
	case strings.Contains(err.Error(), "read only connection"):
		return "no server takes changes; all are read-only standbys"
	case errors.As(err, new(*pgconn.ConnectError)):
		return "cannot connect to PostgreSQL"
	}
	return ""
}

// explain puts the cause before an error of PostgreSQL or the network.
func explain(err error) error {
	if cause := Cause(err); cause != "" {
		return fmt.Errorf("%s: %w", cause, err)
	}
	return err
}

// IsAway reports whether a PostgreSQL database could not be opened because its server does not answer or does not serve yet.
func IsAway(err error) bool {
	var connect *pgconn.ConnectError
	code := codeOf(err)
	return code == pgStartingUp || code == pgAdminShutdown || code == "" && errors.As(err, &connect)
}

// reasonOfParse returns why a DSN cannot be parsed, without the DSN, which may hold a password.
func reasonOfParse(err error) string {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		return parse.Unwrap().Error()
	}
	return "see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING"
}

// readWithin bounds each read from a server that may be stopped or cut off, so that it neither answers nor hangs up.
const readWithin = 10 * time.Second

// boundedConn is a connection whose reads fail after a while, unless its user sets a deadline. A context with a timeout for
// each query would keep a timer after the query has ended: rows outlive the call.
type boundedConn struct {
	net.Conn
	within time.Duration

	mu    sync.Mutex
	fixed bool // the user has set a deadline
}

// Read implements [net.Conn].
func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *boundedConn) bound() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fixed {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(c.within))
}

// SetDeadline implements [net.Conn].
func (c *boundedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed = !t.IsZero()
	return c.Conn.SetDeadline(t)
}

// Server is the settings of PostgreSQL that what was accepted depends on.
type Server struct {
	Synchronous string   // which standbys have to confirm a commit; "" if none
	Unsafe      []string // settings that are off and let a crash lose commits
}

// Server returns how the server is set.
func (s *Store) Server(ctx context.Context) (v Server, err error) {
	var commit, fsync, pages string
	err = s.read.QueryRowContext(ctx, `SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`).
		Scan(&v.Synchronous, &commit, &fsync, &pages)
	if err != nil {
		return v, explain(err)
	}
	if commit == "local" {
		v.Synchronous = ""
	}
	if fsync == "off" {
		v.Unsafe = append(v.Unsafe, "fsync")
	}
	if pages == "off" {
		v.Unsafe = append(v.Unsafe, "full_page_writes")
	}
	return v, nil
}
