// Package index keeps what pages show of repositories: counts, sizes and dates, in a file
// next to the storage, so that a view needs no scan. It is a cache, rebuilt from the tree when it is
// missing, foreign or not closed properly, and revalidated in the background; it never decides what
// exists, and whatever happens to its file doesn't stop the process.
package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Options configures an index.
type Options struct {
	// Path is the file, "" for one that ends with the process. One process at a time has it open.
	Path     string
	Identity string // of the storage: the file of another one is discarded
	Store    storage.Store
	Remote   bool          // the store is reached by a network
	Interval time.Duration // between two passes over all repositories
	// Pulls returns when manifests were last pulled. Nil = unknown.
	Pulls func(context.Context) (Pulls, error)
	Log   *zap.Logger
}

// Pulls tells when a manifest was last pulled.
type Pulls interface {
	Of(name oci.Name, d oci.Digest) (time.Time, bool)
}

// Index is safe for concurrent use.
type Index struct {
	o      Options
	db     *bolt.DB
	file   *os.File      // of db, which has its lock
	wake   chan struct{} // holds a token when something was touched
	broken atomic.Bool   // bbolt has panicked: the file isn't used any more

	// Only the goroutine of Run uses these.
	checked  time.Time    // when a pass last found out which blobs exist
	existing map[key]bool // during such a pass, those that existed when it began

	mu      sync.Mutex
	wanted  bool      // since the last pass
	begun   bool      // a pass has begun: touches matter
	tried   time.Time // when the last pass began
	touched map[oci.Name]bool
	rest    map[oci.Name]time.Time // before which a repository isn't scanned again
	pulls   Pulls
}

// format changes when files of before can't be read.
const format = "2"

// Buckets. Blobs have the keys of keyOf.
var (
	metaBucket         = []byte("meta")
	repositoriesBucket = []byte("repositories") // by name
	contentsBucket     = []byte("contents")     // by name: the keys of its blobs and manifests
	blobsBucket        = []byte("blobs")

	completeKey = []byte("complete")
)

// Open opens or makes the file. The caller must close the index.
func Open(o Options) (*Index, error) {
	x := &Index{o: o, wake: make(chan struct{}, 1), touched: map[oci.Name]bool{}, rest: map[oci.Name]time.Time{}}
	path := o.Path
	if path == "" {
		f, err := os.CreateTemp("", "slipway-index-*.db")
		if err != nil {
			return nil, err
		}
		path = f.Name()
		defer func() { _ = os.Remove(path) }() // it stays open
		if err := f.Close(); err != nil {
			return nil, err
		}
	} else if err := discardTorn(path); err != nil {
		return nil, fmt.Errorf("index %s: %w", path, err)
	}
	if err := x.open(path); err != nil {
		return nil, fmt.Errorf("index %s: %w", path, err)
	}
	return x, nil
}

// openTimeout is the longest time that another process may hold the file.
const openTimeout = time.Second

func (x *Index) open(path string) (err error) {
	err = x.guard(func() (err error) {
		// What a crash loses is read again.
		x.db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout: openTimeout, NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				f, err = os.OpenFile(name, flag, mode)
				x.file = f
				return f, err
			},
		})
		return err
	})
	if err != nil {
		return err
	}
	stamp := []byte(format + " " + x.o.Identity)
	err = x.update(func(tx *bolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil && string(meta.Get(metaBucket)) == string(stamp) {
			return nil
		}
		var old [][]byte
		_ = tx.ForEach(func(name []byte, _ *bolt.Bucket) error { // never fails
			old = append(old, bytes.Clone(name))
			return nil
		})
		for _, name := range old {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		for _, name := range [][]byte{metaBucket, repositoriesBucket, contentsBucket, blobsBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(metaBucket, stamp)
	})
	if err != nil && !x.broken.Load() {
		_ = x.db.Close()
	}
	return err
}

// Close closes the file and marks it as whole. Run must have ended.
func (x *Index) Close() error {
	if x.broken.Load() { // closing db could wait for a lock that the panic left behind; its map keeps the file's
		return errors.Join(syscall.Flock(int(x.file.Fd()), syscall.LOCK_UN), x.file.Close())
	}
	path := x.db.Path() // "" once it is closed
	if x.o.Path == "" || path == "" {
		return x.db.Close()
	}
	if err := errors.Join(x.db.Sync(), x.db.Close()); err != nil {
		return err
	}
	return mark(path)
}

// Complete returns when the last pass over all repositories ended, the zero time if none has.
func (x *Index) Complete() (at time.Time) {
	_ = x.view(func(tx *bolt.Tx) error {
		if v := tx.Bucket(metaBucket).Get(completeKey); len(v) == 8 {
			at = time.Unix(0, int64(binary.BigEndian.Uint64(v)))
		}
		return nil
	})
	return at
}

// Want records that lists of repositories are being viewed: without that there is no pass over the
// storage. It reports whether all repositories were read once, so that lists are whole. A nil *Index
// reports false.
func (x *Index) Want() (whole bool) {
	if x == nil {
		return false
	}
	whole = !x.Complete().IsZero()
	x.mu.Lock()
	x.wanted = true
	x.mu.Unlock()
	x.awake()
	return whole
}

// Touch schedules a repository to be read again soon, because it was changed or is being viewed. It
// doesn't block. Before any list is viewed it does nothing, and so does a nil *Index.
func (x *Index) Touch(name oci.Name) {
	if x == nil {
		return
	}
	x.mu.Lock()
	begun := x.begun
	if begun {
		x.touched[name] = true
	}
	x.mu.Unlock()
	if begun {
		x.awake()
	}
}

// awake has Run look at what is to do.
func (x *Index) awake() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}
