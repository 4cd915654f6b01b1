package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"slipway/shared/fileerror"
)

//go:embed migrations/sqlite/*.sql
var migrations embed.FS

var sqliteDatabase = &database{
	dialect: sqliteDialect{}, begin: `BEGIN IMMEDIATE`, indexed: `INDEXED BY`,
	migrations: migrations, folder: "migrations/sqlite",
	tables:     `SELECT count(*), coalesce(sum(name = 'schema_version'), 0) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`,
	foreign:    "the file is a database of something else (it has tables, but none named schema_version): give the relay a file of its own; `relay import pushbits` takes over what is in one of PushBits",
	lastID:     `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)`,
	continueID: `INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) SELECT (SELECT rowid FROM sqlite_sequence WHERE name = n), n, last FROM (SELECT ? AS n, ? AS last)`,
}

// sqliteDialect is SQLite's. Nobody else uses the file, so there is nothing to lock, and no connection to lose.
type sqliteDialect struct{}

func (sqliteDialect) over(pool gorm.ConnPool) gorm.Dialector {
	return sqlite.Dialector{DriverName: "sqlite", Conn: pool}
}

func (sqliteDialect) bind(text string) string { return text }

func (sqliteDialect) prepare(context.Context, *sql.Conn) error { return nil }

func (sqliteDialect) alone(_ context.Context, _ *sql.Conn, do func() error) error { return do() }

func (sqliteDialect) lock(context.Context, *sql.Conn, string, []int64) error { return nil }

func (sqliteDialect) judge(_ *sql.Conn, err error) verdict { return verdict{err: err} }

// isTakenSQLite reports whether err is SQLite's about a unique index.
func isTakenSQLite(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code() == lib.SQLITE_CONSTRAINT_UNIQUE || e.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// isFullSQLite reports whether err is SQLite's about a file that cannot grow, the database, its log or the index of that.
func isFullSQLite(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_FULL || e.Code() == lib.SQLITE_IOERR_SHMSIZE)
}

// openSQLite opens the connection that writes and those that read, of a database file that need not be there.
func openSQLite(path string) (pools []*sql.DB, err error) {
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, errors.New("the database needs a file")
	}
	if err := private(path); err != nil {
		return nil, err
	}
	for _, pragmas := range [][]string{
		{"synchronous(2)", "cache_size(-4000)", "wal_autocheckpoint(2000)", "journal_size_limit(67108864)"},
		{"query_only(1)", "cache_size(-1000)"},
	} {
		db, err := sql.Open("sqlite", dsn(path, pragmas...))
		if err != nil {
			return pools, err
		}
		pools = append(pools, db)
	}
	pools[0].SetMaxOpenConns(1)
	pools[1].SetMaxOpenConns(4)
	pools[1].SetMaxIdleConns(4)
	return pools, nil
}

// private makes the database file readable by its owner only, before SQLite would make it readable by all.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", fileerror.Explain(path, err))
	}
	for _, beside := range []string{path + "-wal", path + "-shm"} { // what SQLite would only call a database that cannot be opened
		if err := writable(beside); err != nil {
			_ = f.Close()
			return fmt.Errorf("open the database: %w", fileerror.Explain(beside, err))
		}
	}
	return f.Close()
}

// writable opens a file for writing if it is there.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// lockFile makes the database's folder and takes the lock next to the file.
func lockFile(path string) (*os.File, error) {
	if path == "" {
		return nil, errors.New("the database needs a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the database's folder: %w", fileerror.Explain(path, err))
	}
	return lock(path + ".lock")
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{
		"busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(1)", "temp_store(2)",
	}, pragmas...)}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// explainFull returns the full-disk error for SQLite's generic open and write errors if the file system is out of inodes
// or over its quota.
func explainFull(err error, path string) error {
	folder := filepath.Dir(path)
	var e *driver.Error
	if errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_CANTOPEN || e.Code()&0xff == lib.SQLITE_IOERR) {
		if full := probe(folder); errors.Is(full, unix.ENOSPC) || errors.Is(full, unix.EDQUOT) {
			err = fmt.Errorf("%w (%w)", full, err)
		}
	}
	var fs unix.Statfs_t
	if errors.Is(err, unix.ENOSPC) && unix.Statfs(folder, &fs) == nil && fs.Files > 0 && fs.Ffree == 0 {
		return fmt.Errorf("the file system of %s has no inodes left for new files: delete some (%w)", path, err)
	}
	return err
}

// probe writes a file as large as SQLite's first writes and removes it.
func probe(folder string) error {
	f, err := os.CreateTemp(folder, ".room-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// ErrLocked says that another process has the database open.
var ErrLocked = errors.New("another relay uses this database: end that one, or give this one a database of its own")

// lock takes the lock that keeps a second process out. It is on a file of its own: closing any descriptor of the
// database file would drop SQLite's POSIX locks on it.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", fileerror.Explain(path, err))
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
