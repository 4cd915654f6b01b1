package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"syscall"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// dialect is what the databases do differently.
type dialect interface {
	// over returns gorm's dialect over a connection or a pool.
	over(gorm.ConnPool) gorm.Dialector
	// bind writes the placeholders of a statement, which are question marks. No text of ours has one in a literal.
	bind(text string) string
	// prepare sets up the connection that writes.
	prepare(context.Context, *sql.Conn) error
	// alone calls do while no other process migrates.
	alone(ctx context.Context, conn *sql.Conn, do func() error) error
	// lock keeps other relays from changing rows until the transaction ends.
	lock(ctx context.Context, conn *sql.Conn, table string, ids []int64) error
	// judge returns what an error of a transaction means.
	judge(*sql.Conn, error) verdict
}

// verdict is what an error of a transaction means.
type verdict struct {
	err   error // in a sentence for people
	again bool  // it failed because of another transaction, and may succeed now
	lost  bool  // the connection is of no use any more
}

// database is a dialect with the texts that differ.
type database struct {
	dialect

	begin   string
	indexed string        // precedes the name of the index that a query must use; "" if the database finds it
	within  time.Duration // then a commit is given up; 0 means never

	migrations embed.FS
	folder     string // of the migrations
	tables     string // query: the number of tables, and whether schema_version is one of them
	foreign    string // the error about a database that is not ours
	lastID     string // query: the last id that was given to a row of a table; 0 if none was
	continueID string // …and continues after it
	writing    string // query: the transactions that may have given ids to entries and go on; "" if there is one writer
}

// use names the index that a query must use.
func (d *database) use(index string) string {
	if d.indexed == "" || index == "" {
		return ""
	}
	return d.indexed + " " + index
}

func (d *database) open(pool gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(d.over(pool), &gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard})
}

// IsTaken reports whether err is a violation of a unique index.
func IsTaken(err error) bool { return isTakenSQLite(err) || codeOf(err) == pgUniqueViolation }

// IsFull reports whether err means that there is no room on the disk of the database.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isFullSQLite(err) || codeOf(err) == pgDiskFull
}

// query reads rows that no type of gorm's fits.
func (s *Store) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return s.read.QueryContext(ctx, s.d.bind(text), args...)
}

// queryRow is query for one row; without any, scanning it [IsMissing].
func (s *Store) queryRow(ctx context.Context, text string, args ...any) *sql.Row {
	return s.read.QueryRowContext(ctx, s.d.bind(text), args...)
}

// row is one of [sql.Rows], or a [sql.Row].
type row interface{ Scan(into ...any) error }
