package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"gorm.io/gorm"
)

// Store is the open database.
type Store struct {
	lock    *os.File
	pools   []*sql.DB
	read    *sql.DB
	rows    *gorm.DB // over read
	pending *sql.Stmt
	w       *writer
	feed    *feed

	// Migrated tells the schema's version before and after opening.
	Migrated struct{ From, To int }
}

// Open takes the database's lock, opens it, making it if it is not there, and brings its schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	held, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: held, feed: newFeed()}
	if err := s.open(ctx, path); err != nil {
		_ = s.release()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) (err error) {
	conn, pools, err := openSQLite(ctx, path)
	s.pools = pools
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if s.Migrated.From, s.Migrated.To, err = migrate(ctx, conn); err != nil {
		return err
	}
	s.read = pools[1]
	if s.rows, err = gormOver(s.read); err != nil {
		return err
	}
	if s.pending, err = preparePending(ctx, s.read); err != nil {
		return err
	}
	s.w, err = newWriter(ctx, conn, s.feed)
	return err
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
	if s.pending != nil {
		errs = append(errs, s.pending.Close())
	}
	for _, db := range s.pools {
		errs = append(errs, db.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Check makes sure that the database can be written to.
func (s *Store) Check(ctx context.Context) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.exec(`INSERT INTO settings (key, value) VALUES ('checked_at', ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, time.Now().UnixMilli())
	})
}
