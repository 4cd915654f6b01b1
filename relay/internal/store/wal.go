package store

import (
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

// flush returns when everything that was committed before is on disk.
func (f *walFile) flush() error {
	if f == nil {
		return nil
	}
	if err := syncData(f.file); err != nil {
		return fmt.Errorf("flush the database's log: %w", err)
	}
	return nil
}

func (f *walFile) close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}
