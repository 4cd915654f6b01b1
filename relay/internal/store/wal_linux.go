package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData flushes a file's bytes, and of the rest what is needed to find them.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
