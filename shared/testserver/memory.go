package testserver

import (
	"os"

	"golang.org/x/sys/unix"
)

// memory is a file system in memory that Linux mounts.
const memory = "/dev/shm"

// noexec is the flag of a file system from which no program runs, as Docker mounts it.
const noexec = 8

// enoughMemory is the number of free bytes that TempDir wants there.
const enoughMemory = 4 << 30

// TempDir returns a directory for temporary files in memory, or [os.TempDir] where there is less than 4 GiB of it or programs can't
// run there. Databases and homeservers flush after each change: on a disk their tests mostly wait for that.
func TempDir() string {
	var fs unix.Statfs_t
	if unix.Statfs(memory, &fs) != nil || fs.Flags&noexec != 0 || uint64(fs.Bavail)*uint64(fs.Bsize) < enoughMemory { //nolint:gosec,unconvert // other systems have other types
		return os.TempDir()
	}
	return memory
}

// UseMemory makes [os.TempDir] of this process, and of those that it starts, [TempDir]. TestMain calls it.
func UseMemory() { _ = os.Setenv("TMPDIR", TempDir()) } // the name has no NUL
