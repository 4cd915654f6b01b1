package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"slipway/relay/internal/permission"
)

// What SQLite says in its own words.
const (
	begin      = `BEGIN IMMEDIATE`
	flushEach  = `PRAGMA synchronous=FULL`
	flushLater = `PRAGMA synchronous=NORMAL`
	crossJoin  = `CROSS JOIN` // keeps the tables in the order that is written
	like       = `LIKE`       // whatever the case
)

// by names the index that a query must use.
func by(index string) string { return `INDEXED BY ` + index }

// openSQLite opens the connection that writes and those that read, of a database file that need not be there.
func openSQLite(ctx context.Context, path string) (write *sql.Conn, pools []*sql.DB, err error) {
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, nil, errors.New("the database needs a file")
	}
	if err := private(path); err != nil {
		return nil, nil, err
	}
	for _, pragmas := range [][]string{
		{"synchronous(2)", "cache_size(-4000)", "wal_autocheckpoint(2000)", "journal_size_limit(67108864)"},
		{"query_only(1)", "cache_size(-1000)"},
	} {
		db, err := sql.Open("sqlite", dsn(path, pragmas...))
		if err != nil {
			return nil, pools, err
		}
		pools = append(pools, db)
	}
	pools[0].SetMaxOpenConns(1)
	pools[1].SetMaxOpenConns(4)
	pools[1].SetMaxIdleConns(4)
	if write, err = pools[0].Conn(ctx); err != nil {
		err = fmt.Errorf("open the database %s: %w", path, err)
	}
	return write, pools, err
}

// private makes the database file readable by its owner only, before SQLite would make it readable by all.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", permission.Explain(err, path))
	}
	for _, beside := range []string{path + "-wal", path + "-shm"} { // what SQLite would only call a database that cannot be opened
		if err := writable(beside); err != nil {
			_ = f.Close()
			return fmt.Errorf("open the database: %w", permission.Explain(err, beside))
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

// lockFile makes the database's folder and takes the lock beside the file.
func lockFile(path string) (*os.File, error) {
	if path == "" {
		return nil, errors.New("the database needs a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the database's folder: %w", permission.Explain(err, path))
	}
	return lock(path + ".lock")
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{
		"busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(1)", "temp_store(2)",
	}, pragmas...)}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func gormOver(pool gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(sqlite.Dialector{DriverName: "sqlite", Conn: pool}, &gorm.Config{
		SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard,
	})
}

// IsTaken tells whether err is a violation of a unique index.
func IsTaken(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code() == lib.SQLITE_CONSTRAINT_UNIQUE || e.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY
}

// LimitPages bounds the size of the database file, in pages, as a full disk would. It is for tests.
func (s *Store) LimitPages(ctx context.Context, n int) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)) })
}
