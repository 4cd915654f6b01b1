// Package store keeps the relay's data in one SQLite file, or in a PostgreSQL database that several relays may share: users,
// applications, rooms and sessions through gorm, messages and the outbox through SQL of its own. No type of gorm leaves it.
//
// One connection writes. What arrives while the disk is busy is committed together: messages are flushed before
// [Store.Insert] returns; results of deliveries go along, or are committed without a flush of their own, because losing
// them costs a repeat that the homeserver deduplicates.
//
// A caller that waits for a change uses [Store.Await], and then reads the database. The delivery is a [Listener], so that a commit
// wakes the queues of its rooms and no other goroutine.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"gorm.io/gorm"

	"slipway/relay/internal/lease"
)

// Store is the open database.
type Store struct {
	*lease.Member // one of several relays, with a shared PostgreSQL database

	d       *database
	lock    *os.File  // of SQLite's
	pools   []*sql.DB // that of the writer, that of the readers, and PostgreSQL's for the lease
	read    reader
	rows    *gorm.DB // over read
	pending *sql.Stmt
	w       *writer
	feed    *feed

	// Migrated is the schema's version before and after opening.
	Migrated struct{ From, To int }
}

func newStore(d *database) *Store {
	m := &lease.Member{}
	return &Store{Member: m, d: d, feed: newFeed(m)}
}

// Open takes the lock of an SQLite database, opens it, making it if it is not there, and brings its schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	held, err := lockFile(path)
	if err != nil {
		return nil, explainFull(err, path)
	}
	s := newStore(sqliteDatabase)
	s.lock = held
	if s.pools, err = openSQLite(path); err == nil {
		err = s.attach(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, explainFull(err, path)
	}
	return s, nil
}

// attach migrates the database and prepares what reads and writes it.
func (s *Store) attach(ctx context.Context) (err error) {
	conn, err := s.pools[0].Conn(ctx)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if s.Migrated.From, s.Migrated.To, err = s.d.migrate(ctx, conn); err != nil {
		return err
	}
	s.read.DB = s.pools[1]
	if s.rows, err = s.d.open(s.read); err != nil {
		return err
	}
	if s.pending, err = s.read.PrepareContext(ctx, pendingText(s.d)); err != nil {
		return err
	}
	s.w, err = newWriter(ctx, s.d, s.pools[0], conn, s.feed, s.Member)
	return err
}

// Close commits what is waiting, writes the log back into the database and gives up the lock.
func (s *Store) Close() error {
	var err error
	if s.w != nil {
		err = s.w.close()
	}
	s.Leave()
	return errors.Join(err, s.release())
}

func (s *Store) release() error {
	var errs []error
	if s.pending != nil {
		errs = append(errs, s.pending.Close())
	}
	for _, db := range s.pools {
		errs = append(errs, db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Check makes sure that the database can be written to.
func (s *Store) Check(ctx context.Context) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.SetSetting("checked_at", strconv.FormatInt(time.Now().UnixMilli(), 10))
	})
}

// reader is the read-only connection pool. A query of a server fails unless its first row comes in time, whatever it waits for: a
// connection that others have, a new one, or the answer. One of a file is bounded if no connection is free.
type reader struct {
	*sql.DB
	server time.Duration // how long a server may take; 0 for a file
}

// bound bounds a query until the function it returns is called. No timer remains then, and none is needed: what comes after the first row
// is bounded by [boundedConn].
func (r reader) bound(ctx context.Context) (context.Context, func()) {
	if r.server == 0 {
		if s := r.Stats(); s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections {
			return ctx, func() {}
		}
	}
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(cmp.Or(r.server, readWithin), cancel)
	stop := context.AfterFunc(ctx, cancel)
	return bounded{within, ctx}, func() {
		timer.Stop()
		stop()
	}
}

// bounded ends with its parent, or when the time of a query is over.
type bounded struct {
	context.Context
	parent context.Context
}

// Err implements [context.Context].
func (b bounded) Err() error {
	if b.Context.Err() == nil {
		return nil
	}
	return cmp.Or(b.parent.Err(), context.DeadlineExceeded)
}

// QueryContext is that of [sql.DB].
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, began := r.bound(ctx)
	defer began()
	return r.DB.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // the caller closes them
}

// QueryRowContext is that of [sql.DB].
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx, began := r.bound(ctx)
	defer began()
	return r.DB.QueryRowContext(ctx, query, args...)
}
