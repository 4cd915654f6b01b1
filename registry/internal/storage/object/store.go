package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

// Options configures a Store.
type Options struct {
	// Spool is a local directory for the bytes of uploads; "" = the system's for temporary
	// files. It is made when it is needed.
	Spool string
	// SpoolMax bounds the bytes of an upload that are kept there before it goes to the bucket; 0 =
	// 128 MiB.
	SpoolMax int64
	// Upload reports whether a key is one of OpenUpload: then it holds no object. nil =
	// unknown.
	Upload func(key string) bool
	// Collected reports whether collections may delete what is at a key: then changes of it are announced to them. nil = unknown.
	Collected func(key string) bool
	// SHA256 returns the hash in hex of the only content that a key can have, or "". nil = unknown.
	SHA256 func(key string) string
	// Fresh is the age up to which an attempt doesn't renew an object; 0 = a minute. It is the same in
	// all processes.
	Fresh time.Duration
	// Log takes failures that no request returns; nil = no logging.
	Log *zap.Logger
}

// Store is a storage.Store.
type Store struct {
	*Client
	o     Options
	fresh time.Duration
	locks keyLocks
	lists lists
	lease lease

	mu   sync.Mutex
	live map[string]bool // uploads that this process has created and not left
}

var _ storage.Store = (*Store)(nil)

// New returns a store of what the client reaches. It sends nothing.
func New(c *Client, o Options) *Store {
	o.Spool = cmp.Or(o.Spool, os.TempDir()+"/slipway-uploads")
	o.SpoolMax = max(cmp.Or(o.SpoolMax, 128<<20), c.limits.MinPart, 1<<20)
	if most := c.limits.MaxPut - 64<<20; most > 0 {
		o.SpoolMax = min(o.SpoolMax, most) // a Write may go beyond it by what it has
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Store{Client: c, o: o, fresh: cmp.Or(o.Fresh, defaultFresh), lists: lists{c: c}, lease: lease{c: c}, live: map[string]bool{}}
}

// mayUpload reports whether there may be an upload at key.
func (s *Store) mayUpload(key string) bool { return s.o.Upload == nil || s.o.Upload(key) }

// mayObject reports whether there may be an object at key.
func (s *Store) mayObject(key string) bool { return s.o.Upload == nil || !s.o.Upload(key) }

func valid(key string) error {
	if !storage.ValidKey(key) {
		return fmt.Errorf("%q: %w", key, storage.ErrInvalidKey)
	}
	return nil
}

// at describes what failed where.
func at(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (i Info) info(key string) storage.Info {
	return storage.Info{Key: key, Size: i.Size, Modified: i.Modified, Version: i.Version, MD5: i.MD5}
}

// Stat implements storage.Store. It knows nothing of prefixes.
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	if prefix, ok := strings.CutSuffix(key, "/"); ok && valid(prefix) == nil {
		return storage.Info{Key: key, Prefix: true}, nil
	}
	if err := valid(key); err != nil {
		return storage.Info{}, err
	}
	err := storage.ErrNotExist
	if s.mayObject(key) {
		var info Info
		if info, err = s.dated(ctx, key[1:]); err == nil {
			return info.info(key), nil
		}
	}
	if errors.Is(err, storage.ErrNotExist) && s.mayUpload(key) {
		var info storage.Info
		if info, err = s.statUpload(ctx, key); err == nil {
			return info, nil
		}
	}
	return storage.Info{}, at(key, err)
}

// Open implements storage.Store.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	r := &reader{c: s.Client, ctx: ctx, key: key[1:], offset: offset, length: length}
	if err := r.open(); err != nil {
		return nil, at(key, err)
	}
	return &storage.Object{Info: r.info.info(key), ReadCloser: r}, nil
}

// List implements storage.Store. What changes meanwhile is listed or not.
func (s *Store) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if err := valid(prefix); err != nil {
			yield(storage.Info{}, err)
			return
		}
		below := prefix[1:] + "/"
		from := ListOptions{Delimited: !o.Flat}
		if o.Max < 1000 { // otherwise as many as the store likes
			from.Max = o.Max
		}
		switch {
		case o.After > prefix+"/" && !strings.HasPrefix(o.After, prefix+"/"):
			return
		case o.After > prefix+"/":
			from.After = startAfter(o.After)
		}
		var mark Info // the last stamp; it comes before its object
		for e, err := range s.Client.List(ctx, below, from) {
			if err != nil {
				yield(storage.Info{}, at(prefix, err))
				return
			}
			key := "/" + e.Key
			if strings.HasSuffix(key, ".stamp") {
				mark = e
			} else if mark.Key == stamp(e.Key) && mark.Modified.After(e.Modified) && s.stamped(e.Size, e.Version) {
				e.Modified = mark.Modified
			}
			if key <= o.After || !storage.ValidKey(strings.TrimSuffix(key, "/")) || !e.Prefix && strings.HasSuffix(key, "/") {
				continue
			}
			if e.Prefix {
				if !yield(storage.Info{Key: key, Prefix: true}, nil) {
					return
				}
			} else if !yield(e.info(key), nil) {
				return
			}
		}
	}
}

// startAfter is a key to list after that every store takes: some refuse names with a dot alone.
func startAfter(key string) string {
	for !storage.ValidKey(strings.TrimSuffix(key, "/")) {
		i := strings.LastIndexByte(strings.TrimSuffix(key, "/"), '/')
		if i <= 0 {
			return ""
		}
		key = key[:i+1]
	}
	return key[1:]
}

// Close implements storage.Store. The caller closes the bucket.
func (s *Store) Close() error {
	s.lease.release()
	return nil
}
