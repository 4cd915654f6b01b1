package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// walFile is SQLite's log, opened beside it to flush commits to disk. SQLite would call fsync, which writes the file's times
// as well: to a journal of the file system, where there is one. SQLite itself flushes before it copies the log into the
// database (synchronous=NORMAL); the file stays the same while the database is open.
type walFile struct{ file *os.File }

func openWAL(database string) (*walFile, error) {
	path, err := filepath.EvalSymlinks(database)
	if err != nil {
		return nil, fmt.Errorf("open the database's log: %w", err)
	}
	f, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the database's log: %w", err)
	}
	return &walFile{f}, nil
}

// flush flushes the log.
func (f *walFile) flush() error {
	if f == nil {
		return nil
	}
	if err := syncData(f.file); err != nil {
		return fmt.Errorf("flush the database's log: %w", err)
	}
	return nil
}

// flush returns when everything that was committed before is on disk. After a failure the kernel may take for written what is
// not: then all is copied from the log into the database, with flushes of SQLite's own, and the log begun anew.
func (w *writer) flush() error {
	if w.unflushed {
		var busy, pages, copied int
		err := w.conn.QueryRowContext(context.Background(), `PRAGMA wal_checkpoint(RESTART)`).Scan(&busy, &pages, &copied)
		if err == nil && busy != 0 {
			err = errors.New("somebody reads for too long")
		}
		if err != nil {
			return fmt.Errorf("flush the database after a failure: %w", err)
		}
		w.unflushed = false
	}
	err := w.wal.flush()
	w.unflushed = err != nil
	return err
}

func (f *walFile) close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}
