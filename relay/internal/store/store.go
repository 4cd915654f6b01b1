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
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"slipway/relay/internal/permission"
)

// Store is the open database.
type Store struct {
	lock  *os.File
	write *sql.DB // one connection, the writer's
	read  *sql.DB
	rows  *gorm.DB // over read
	w     *writer

	// Migrated tells the schema's version before and after opening.
	Migrated struct{ From, To int }
}

// Open takes the database's lock, opens it, making it if it is not there, and brings its schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, errors.New("the database needs a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the database's folder: %w", permission.Explain(err, path))
	}
	held, err := lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{lock: held}
	if err := s.open(ctx, path); err != nil {
		_ = s.release()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) (err error) {
	if err := private(path); err != nil {
		return err
	}
	if s.write, err = sql.Open("sqlite", dsn(path, "synchronous(2)", "cache_size(-4000)", "wal_autocheckpoint(2000)", "journal_size_limit(67108864)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	if s.Migrated.From, s.Migrated.To, err = migrate(ctx, conn); err != nil {
		_ = conn.Close()
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "query_only(1)", "cache_size(-1000)")); err != nil {
		_ = conn.Close()
		return err
	}
	s.read.SetMaxOpenConns(4)
	s.read.SetMaxIdleConns(2)
	if s.rows, err = gormOver(s.read); err != nil {
		_ = conn.Close()
		return err
	}
	s.w, err = newWriter(ctx, conn)
	return err
}

// OnCommit sets what the writer calls after each commit, in the order of the commits; it must not block or write. It is
// set before anything is written.
func (s *Store) OnCommit(f func(Commit)) { s.w.onCommit = f }

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

// Close commits what is waiting, writes the log back into the database and gives up the lock.
func (s *Store) Close() error {
	var err error
	if s.w != nil {
		err = s.w.close()
	}
	return errors.Join(err, s.release())
}

func (s *Store) release() error {
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Read returns gorm over the reading connections.
func (s *Store) Read(ctx context.Context) *gorm.DB { return s.rows.WithContext(ctx) }

// Check makes sure that the database can be written to.
func (s *Store) Check(ctx context.Context) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.Exec(`INSERT INTO settings (key, value) VALUES ('checked_at', ?)
			ON CONFLICT DO UPDATE SET value = excluded.value`, time.Now().UnixMilli()).Error
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

// IsMissing tells whether err says that there is no such row.
func IsMissing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, sql.ErrNoRows)
}
