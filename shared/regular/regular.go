// Package regular reads files that an operator may replace while the program runs.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadFile returns the content of a regular file of at most limit bytes. It refuses
// anything else without blocking: opening or reading a FIFO would wait for a writer.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
	}
	return content, err
}
