package lastpull

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// maxTimes is the number of manifests that the file remembers; those pulled longest ago
// are forgotten first.
const maxTimes = 200_000

// The file is the magic line and then records of a key and the seconds since
// 1970, big-endian.
const (
	magic      = "slipway pulls 1\n"
	recordSize = len(key{}) + 8
	maxFile    = int64(len(magic) + maxTimes*recordSize)
)

// key is the begin of the SHA-256 of repository and digest.
type key [16]byte

func keyOf(name oci.Name, d oci.Digest) key {
	sum := sha256.Sum256([]byte(string(name) + "@" + string(d)))
	return key(sum[:])
}

// Times holds the times at which manifests were last pulled.
type Times struct{ seconds map[key]int64 }

// Of returns when the manifest was last pulled; ok is false if that is unknown.
func (t Times) Of(name oci.Name, d oci.Digest) (at time.Time, ok bool) {
	s, ok := t.seconds[keyOf(name, d)]
	return time.Unix(s, 0).UTC(), ok
}

// Empty reports whether nothing is known.
func (t Times) Empty() bool { return len(t.seconds) == 0 }

// Set records a pull, unless a later one is known.
func (t *Times) Set(name oci.Name, d oci.Digest, at time.Time) {
	t.set(keyOf(name, d), at.Unix())
}

func (t *Times) set(k key, seconds int64) {
	if t.seconds == nil {
		t.seconds = map[key]int64{}
	}
	t.seconds[k] = max(seconds, t.seconds[k])
}

func (t *Times) add(others Times) {
	for k, seconds := range others.seconds {
		t.set(k, seconds)
	}
}

// File stores the times across restarts: an object outside the tree that
// distribution does not know. It may be lost with the power, which only makes
// pulls unknown.
type File struct {
	store    storage.Store
	recorder atomic.Pointer[Recorder] // of this process, nil = none
}

// NewFile does no I/O.
func NewFile(s storage.Store) *File { return &File{store: s} }

// Read returns all that is known, with what the recorder of this process hasn't written yet. A file that is missing or foreign
// knows nothing.
func (f *File) Read(ctx context.Context) (Times, error) {
	unwritten := f.recorder.Load().unwritten() // before the file, to which it may move
	times, _, err := f.read(ctx)
	times.add(unwritten)
	return times, err
}

// read returns also what has to be the case still when the file is written.
func (f *File) read(ctx context.Context) (Times, storage.Condition, error) {
	content, info, err := storage.Read(ctx, f.store, layout.Pulls, maxFile)
	switch {
	case errors.Is(err, storage.ErrNotExist):
		return Times{}, storage.IfAbsent(), nil
	case err != nil && !errors.Is(err, storage.ErrTooLarge):
		return Times{}, storage.Condition{}, err
	case info.Version == "":
		return decode(content), storage.Condition{}, nil
	default:
		return decode(content), storage.IfVersion(info.Version), nil
	}
}

// A file that other processes keep changing is tried so often.
const (
	maxTries   = 50
	retryPause = 10 * time.Millisecond
)

// Add writes what is new. What other processes add at the same time stays.
func (f *File) Add(ctx context.Context, news Times) error {
	for try := 1; ; try++ {
		all, unchanged, err := f.read(ctx)
		if err != nil {
			return err
		}
		// A file that was just written may have no version yet; one that never gets any is
		// overwritten in the end.
		if known := unchanged != (storage.Condition{}); known || try == maxTries {
			all.add(news)
			err = f.store.Apply(ctx, nil, storage.Stage{{Key: layout.Pulls, Content: encode(all), If: unchanged, Ephemeral: true}})
			if !errors.Is(err, storage.ErrConflict) || try >= maxTries {
				return err
			}
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func decode(content []byte) Times {
	var t Times
	if len(content) < len(magic) || string(content[:len(magic)]) != magic {
		return t
	}
	for record := range slices.Chunk(content[len(magic):], recordSize) {
		if len(record) == recordSize {
			t.set(key(record), int64(binary.BigEndian.Uint64(record[len(key{}):])))
		}
	}
	return t
}

// encode writes the latest first, as many as there is room for.
func encode(t Times) []byte {
	keys := slices.SortedFunc(maps.Keys(t.seconds), func(a, b key) int {
		return cmp.Or(cmp.Compare(t.seconds[b], t.seconds[a]), slices.Compare(a[:], b[:]))
	})
	keys = keys[:min(len(keys), maxTimes)]
	content := make([]byte, 0, len(magic)+len(keys)*recordSize)
	content = append(content, magic...)
	for _, k := range keys {
		content = append(content, k[:]...)
		content = binary.BigEndian.AppendUint64(content, uint64(t.seconds[k]))
	}
	return content
}
