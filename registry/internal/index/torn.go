package index

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// A file that is written without flushes may be torn after a power cut, and bbolt panics on such
// a file, also in goroutines of its own. So a file is opened only with a mark of its checksum, which
// a proper close leaves beside it.

// markSuffix ends the name of the mark.
const markSuffix = ".sum"

var (
	errInUse  = errors.New("another process has it open")
	errBroken = errors.New("the file has become unusable and is not used until the next start")
)

// boltMagic is at the begin of the first page of bbolt's files.
var boltMagic = []byte{0xed, 0xda, 0x0c, 0xed}

// discardTorn removes the mark, and the file unless the mark fits it. A file that is none of
// bbolt's is renamed instead: the setting may name the wrong one.
func discardTorn(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	// bbolt holds this lock while it has a file open.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	} else if err != nil {
		return err
	}
	want, marked := os.ReadFile(path + markSuffix)
	if err := os.Remove(path + markSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	head := make([]byte, 64)
	n, _ := f.ReadAt(head, 0)
	if n > 0 && !bytes.Contains(head[:n], boltMagic) {
		return os.Rename(path, path+".damaged")
	}
	if marked == nil {
		if now, err := checksum(f); err == nil && now == strings.TrimSpace(string(want)) {
			return nil
		}
	}
	return os.Remove(path)
}

// mark writes the mark of a file that is closed.
func mark(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := checksum(f)
	if err != nil {
		return err
	}
	return os.WriteFile(path+markSuffix, []byte(sum+"\n"), 0o600)
}

// checksum describes the content of a file.
func checksum(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(h, f)
	return fmt.Sprintf("%d %08x", n, h.Sum32()), err
}

// view reads the file. While it can't be used, do isn't called.
func (x *Index) view(do func(tx *bolt.Tx) error) error {
	err := x.guard(func() error { return x.db.View(do) })
	if x.broken.Load() {
		return nil
	}
	return err
}

// update changes the file.
func (x *Index) update(do func(tx *bolt.Tx) error) error {
	return x.guard(func() error { return x.db.Update(do) })
}

// guard makes an error of a panic of bbolt, such as after another program has cut or overwritten
// the file, and of a fault in its memory map. The panic may have left locks behind, so nothing uses
// the file from then on.
func (x *Index) guard(do func() error) (err error) {
	if x.broken.Load() {
		return errBroken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			x.broken.Store(true)
			x.o.Log.Error("the index of the repositories has become unusable; lists show no sizes until the next start, which replaces it", zap.String("panic", fmt.Sprint(r)))
			err = errBroken
		}
	}()
	return do()
}
