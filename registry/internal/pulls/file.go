package pulls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// maxTimes is how many manifests the file remembers; those pulled longest ago
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

// Times is when manifests were last pulled.
type Times struct{ seconds map[key]int64 }

// Of is when the manifest was last pulled; ok is false if nobody knows.
func (t Times) Of(name oci.Name, d oci.Digest) (at time.Time, ok bool) {
	s, ok := t.seconds[keyOf(name, d)]
	return time.Unix(s, 0).UTC(), ok
}

// Empty says whether nothing is known.
func (t Times) Empty() bool { return len(t.seconds) == 0 }

// Set notes a pull, unless a later one is known.
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

// File is where the times outlive the process: a file beside the tree that
// distribution does not know. It may be lost with the power, which only makes
// pulls unknown.
type File struct {
	driver driver.Driver
	mu     sync.Mutex // one reads, adds and writes at a time
	last   Times      // what Add wrote last
}

// NewFile does no I/O.
func NewFile(d driver.Driver) *File { return &File{driver: d} }

// Read returns all that is known. A file that is missing or is none of ours
// knows nothing.
func (f *File) Read(ctx context.Context) (Times, error) {
	content, err := f.driver.ReadFile(ctx, layout.Pulls, maxFile)
	if errors.Is(err, driver.ErrNotExist) || errors.Is(err, driver.ErrTooLarge) {
		return Times{}, nil
	}
	if err != nil {
		return Times{}, err
	}
	return decode(content), nil
}

// Add writes what is new. What it wrote the last time it writes again: another
// process may have written at the same time and not have seen it.
func (f *File) Add(ctx context.Context, news Times) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := f.Read(ctx)
	if err != nil {
		return err
	}
	all.add(f.last)
	all.add(news)
	if err := f.driver.WriteScratch(ctx, layout.Pulls, encode(all)); err != nil {
		return err
	}
	f.last = news
	return nil
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
