//go:build !linux

package store

import "os"

// syncData flushes a file.
func syncData(f *os.File) error { return f.Sync() }
