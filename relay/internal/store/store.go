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
	s.read = reader{s.pools[1]}
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

// reader is the read-only connection pool. A query that has to wait for a connection is bounded, as its connection isn't: a server
// that is stopped keeps all of them busy.
type reader struct {
	*sql.DB
}

// bound bounds a query if no connection is free.
func (r reader) bound(ctx context.Context) context.Context {
	if s := r.Stats(); s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// QueryContext is that of [sql.DB].
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.DB.QueryContext(r.bound(ctx), query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.DB.QueryRowContext(r.bound(ctx), query, args...)
}
