package notify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"slipway/shared/durabledir"
)

// file is a bbolt database with a bucket of events for each endpoint. The process
// that has it open holds its lock.
//
// Keys in a bucket are consecutive numbers, so the first and the last give the
// count. A value is the bytes of all events up to this one and the envelope, so
// the first and the last give the size, too.
type file struct {
	db   *bolt.DB
	path string
}

// event is an event that waits.
type event struct {
	seq  uint64 // in the file; 0 for one in memory
	pull bool
	body []byte // the envelope, compact
}

const (
	filePattern = "queue-%d.db"
	fileGlob    = "queue-*.db"
	totalSize   = 8 // bytes before the envelope

	// lockTimeout outlasts `registry events`, which holds a lock for a moment.
	lockTimeout = 200 * time.Millisecond

	// batchDelay is the time that an event waits for others to share a flush with.
	batchDelay = time.Millisecond

	probeSize = 16 << 10
)

// openFile opens the first file in dir that no other process uses, and moves into
// it what processes that ended have left in the others.
func openFile(dir string, max int64, log *zap.Logger) (*file, error) {
	if err := durabledir.Make(dir, 0o700); err != nil {
		return nil, err
	}
	own, err := firstFree(dir, log)
	if err != nil {
		return nil, err
	}
	if err := durabledir.Sync(dir); err != nil {
		return nil, errors.Join(err, own.close())
	}
	paths, _ := filepath.Glob(filepath.Join(dir, fileGlob)) // the pattern is valid
	for _, path := range paths {
		if path == own.path {
			continue
		}
		left, err := open(path, false)
		if err != nil {
			continue // in use, or damaged and logged by the process that found it
		}
		n, err := own.take(left, max)
		if err = errors.Join(err, left.close()); err != nil {
			log.Warn("cannot take over the events of a process that ended", zap.String("file", path), zap.Error(err))
		} else if n > 0 {
			log.Info("took over the events of a process that ended", zap.String("file", path), zap.Int("events", n))
		}
	}
	return own, nil
}

func firstFree(dir string, log *zap.Logger) (*file, error) {
	for i := 0; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf(filePattern, i))
		f, err := open(path, false)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, bolterrors.ErrTimeout):
		case errors.Is(err, errDamaged):
			log.Error("an event queue is damaged; it stays as it is, and another file takes its place", zap.String("file", path), zap.Error(err))
		default:
			return nil, err
		}
	}
}

// probeBucket holds the value of probe. No endpoint has such a name.
var probeBucket = []byte("\x00probe")

var errDamaged = errors.New("not a usable event queue")

// open opens one file. The error is bolterrors.ErrTimeout if another process has
// it, and errDamaged if its content is at fault.
func open(path string, readOnly bool) (f *file, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a file that was cut short
	var db *bolt.DB
	defer func() {
		if r := recover(); r != nil { // bbolt panics on pages that make no sense
			f, err = nil, fmt.Errorf("%w: %v", errDamaged, r)
			if db != nil {
				err = errors.Join(err, db.Close())
			}
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, ReadOnly: readOnly, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = batchDelay
	f = &file{db, path}
	if err := f.check(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// check reads all events, so that damage shows before the first is sent.
func (f *file) check() error {
	return f.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if len(k) != 8 || len(v) < totalSize {
					return errDamaged
				}
				return nil
			})
		})
	})
}

// takeChunk is the number of events that move to another file in one transaction.
const takeChunk = 1000

// take moves the events of another file to the end of this one. A crash meanwhile
// leaves some in both.
func (f *file) take(from *file, max int64) (n int, err error) {
	names, err := from.endpoints()
	for _, name := range names {
		for {
			events, failed := from.after(name, 0, takeChunk)
			if err = errors.Join(err, failed); err != nil || len(events) == 0 {
				break
			}
			if _, err = f.put([]queued{{endpoint: name, events: events}}, max); err != nil {
				break
			}
			n += len(events)
			if _, err = from.remove(name, events[len(events)-1].seq); err != nil {
				break
			}
		}
	}
	return n, err
}

// probe reports whether the disk takes events: it stores a value larger than most.
func (f *file) probe() error {
	return f.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(probeBucket)
		if err != nil {
			return err
		}
		return b.Put(key(1), make([]byte, probeSize))
	})
}

// queued is events for one endpoint.
type queued struct {
	endpoint string
	events   []*event
}

// put stores the events durably. Calls at the same time share a flush. Where an
// endpoint then has more than max bytes, its oldest events go; dropped counts
// them, in the order of the batch.
func (f *file) put(batch []queued, max int64) (dropped []int, err error) {
	err = f.db.Batch(func(tx *bolt.Tx) error {
		dropped = make([]int, len(batch))
		for i, q := range batch {
			b, err := tx.CreateBucketIfNotExists([]byte(q.endpoint))
			if err != nil {
				return err
			}
			b.FillPercent = 1 // keys only grow
			for _, e := range q.events {
				n, err := push(b, e.body, max)
				if err != nil {
					return err
				}
				dropped[i] += n
			}
		}
		return nil
	})
	return dropped, err
}

// push puts one event at the end and returns how many at the front made room.
func push(b *bolt.Bucket, body []byte, max int64) (dropped int, err error) {
	s := measure(b)
	for ; s.count > 0 && s.bytes+int64(len(body)) > max; s = measure(b) {
		first, _ := b.Cursor().First()
		if err := b.Delete(slices.Clone(first)); err != nil {
			return 0, err
		}
		dropped++
	}
	seq, err := b.NextSequence()
	if err != nil {
		return 0, err
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, totalSize+len(body)), s.total+uint64(len(body)))
	return dropped, b.Put(key(seq), append(value, body...))
}

// size returns the number and the bytes of the events in a bucket.
type size struct {
	count int
	bytes int64
	first []byte // the oldest envelope, valid until the transaction ends
	total uint64 // of the last event
}

func measure(b *bolt.Bucket) (s size) {
	firstKey, first := b.Cursor().First()
	if firstKey == nil {
		return s
	}
	lastKey, last := b.Cursor().Last()
	s.count = int(number(lastKey)-number(firstKey)) + 1
	s.first, s.total = first[totalSize:], number(last)
	s.bytes = int64(s.total-number(first)) + int64(len(s.first))
	return s
}

// backlog returns what waits for the endpoint.
func (f *file) backlog(endpoint string) (waiting Backlog, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(endpoint)); b != nil {
			s := measure(b)
			waiting = Backlog{Changes: s.count, Bytes: s.bytes, First: summary(s.first)}
		}
		return nil
	})
	return waiting, err
}

// after returns at most max events that follow seq, all if max is negative.
func (f *file) after(endpoint string, seq uint64, max int) (events []*event, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(endpoint))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.Seek(key(seq + 1)); k != nil && len(events) != max; k, v = c.Next() {
			events = append(events, &event{seq: number(k), body: slices.Clone(v[totalSize:])})
		}
		return nil
	})
	return events, err
}

// remove deletes the events up to seq and returns how many there were.
func (f *file) remove(endpoint string, seq uint64) (n int, err error) {
	err = f.db.Batch(func(tx *bolt.Tx) error {
		n = 0
		b := tx.Bucket([]byte(endpoint))
		if b == nil {
			return nil
		}
		for k, _ := b.Cursor().First(); k != nil && number(k) <= seq; k, _ = b.Cursor().First() {
			if err := b.Delete(slices.Clone(k)); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// drop deletes all events of the endpoint and returns how many there were.
func (f *file) drop(endpoint string) (n int, err error) { return f.remove(endpoint, math.MaxUint64) }

// endpoints lists those that have a bucket.
func (f *file) endpoints() (names []string, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if !bytes.Equal(name, probeBucket) {
				names = append(names, string(name))
			}
			return nil
		})
	})
	return names, err
}

func (f *file) close() error { return f.db.Close() }

// socket is the path at which the process that has the file open answers `registry events`.
func socket(path string) string { return strings.TrimSuffix(path, ".db") + ".sock" }

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// number reads the eight bytes that a key is and a value begins with.
func number(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
