package object

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// Options is how a Store uses its bucket.
type Options struct {
	// Shared says that several processes write: then what a request has received is
	// stored before it is answered, so that any of them goes on with an upload. Else an
	// upload stays in Spool until its digest is known.
	Shared bool
	// Spool is a local directory for the bytes of uploads; "" = the system's for temporary
	// files. It is made when it is needed.
	Spool string
	// SpoolMax is how much of an upload is kept there before it goes to the bucket; 0 =
	// 128 MiB.
	SpoolMax int64
	// Tree is the key below which all objects lie, "" for the root: what others have begun
	// beside it in the bucket is theirs.
	Tree string
	// Mutable says whether an object may have different contents at different times, as a
	// tag has: then no request of a change comes late. nil = all.
	Mutable func(key string) bool
	// Upload says whether a key is one of CreateUpload: then no object lies there. nil =
	// nobody knows.
	Upload func(key string) bool
	// SHA256 returns the hash in hex of all that may ever lie at a key, or "". nil = of none.
	SHA256 func(key string) string
	// Guard keeps all others from changing objects until release is called or the deadline passes. A store that
	// ignores conditions on DELETE needs it; see package lease.
	Guard func(ctx context.Context, keys []string) (deadline time.Time, release func(), err error)
	// Begin opens a section for a change that has none, on a store that needs Guard.
	Begin func(ctx context.Context) (storage.Section, error)
}

// Store is a storage.Store.
type Store struct {
	*Client
	o     Options
	locks keyLocks
	shelf shelf
	left  left

	mu   sync.Mutex
	live map[string]*upload // the last holder of each upload in this process
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Cleaner = (*Store)(nil)

	_ storage.Continuer = (*Store)(nil)
)

// New returns a store of what the client reaches. It sends nothing.
func New(c *Client, o Options) *Store {
	if o.Mutable == nil {
		o.Mutable = func(string) bool { return true }
	}
	o.Spool = cmp.Or(o.Spool, os.TempDir()+"/slipway-uploads")
	o.SpoolMax = max(cmp.Or(o.SpoolMax, 128<<20), c.limits.MinPart, 1<<20)
	if most := c.limits.MaxPut - 64<<20; most > 0 {
		o.SpoolMax = min(o.SpoolMax, most) // a Write may go beyond it by what it has
	}
	s := &Store{Client: c, o: o, live: map[string]*upload{}}
	s.shelf = localShelf{s}
	if o.Shared {
		s.shelf = bucketShelf{s}
	}
	return s
}

// mayUpload says whether there may be an upload at key, mayObject whether an object.
func (s *Store) mayUpload(key string) bool { return s.o.Upload == nil || s.o.Upload(key) }
func (s *Store) mayObject(key string) bool { return s.o.Upload == nil || !s.o.Upload(key) }

func valid(key string) error {
	if !storage.ValidKey(key) {
		return fmt.Errorf("%q: %w", key, storage.ErrInvalidKey)
	}
	return nil
}

// at says what failed where.
func at(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (i Info) info(key string) storage.Info {
	return storage.Info{Key: key, Size: i.Size, Modified: i.Modified, Version: i.Version, MD5: i.MD5}
}

// Stat implements storage.Store.
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := valid(key); err != nil {
		return storage.Info{}, err
	}
	err := storage.ErrNotExist
	if s.mayObject(key) {
		var info Info
		if info, err = s.Head(ctx, key[1:]); err == nil {
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
		if o.Max < 1000 { // else as many as the store likes
			from.Max = o.Max
		}
		switch {
		case o.After > prefix+"/" && !strings.HasPrefix(o.After, prefix+"/"):
			return
		case o.After > prefix+"/":
			from.After = startAfter(o.After)
		}
		for e, err := range s.Client.List(ctx, below, from) {
			if err != nil {
				yield(storage.Info{}, at(prefix, err))
				return
			}
			key := "/" + e.Key
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

// Generation implements storage.Store: nothing tells.
func (s *Store) Generation(context.Context, string) string { return "" }

// Check implements storage.Store.
func (s *Store) Check(ctx context.Context, write bool) error {
	if _, err := s.page(ctx, "", ListOptions{Max: 1}); err != nil || !write {
		return err
	}
	key := ".slipway/check/" + rand.Text()
	if _, err := s.Put(ctx, key, nil, &Change{}); err != nil {
		return err
	}
	return s.Delete(ctx, key, &Change{})
}

// Close implements storage.Store. The bucket is closed by who opened it.
func (s *Store) Close() error {
	s.left.close()
	return nil
}

// reader reads an object. Where a connection breaks it goes on with another, as long
// as the object is the same.
type reader struct {
	c              *Client
	ctx            context.Context
	key            string
	offset, length int64
	info           Info
	body           io.ReadCloser
	cancel         context.CancelFunc
	watchdog       *time.Timer
	tries          int
}

// maxReopen is how often one reader begins anew.
const maxReopen = 5

func (r *reader) open() error {
	type opened struct {
		body   io.ReadCloser
		info   Info
		cancel context.CancelFunc
	}
	got, err := read(r.ctx, r.c, func(short context.Context) (opened, error) {
		// The body outlives this call, and with it the deadline of the request.
		ctx, cancel := context.WithCancel(r.ctx)
		stop := context.AfterFunc(short, cancel)
		body, info, err := r.c.b.Get(ctx, r.c.root+r.key, r.offset, r.length)
		if !stop() && err == nil {
			body.Close()
			err = context.DeadlineExceeded
		}
		if err != nil {
			cancel()
			if r.ctx.Err() == nil && errors.Is(err, context.Canceled) {
				err = context.DeadlineExceeded
			}
		}
		return opened{body, info, cancel}, err
	})
	if err != nil {
		return err
	}
	if r.info.Version != "" && got.info.Version != r.info.Version {
		got.body.Close()
		got.cancel()
		return fmt.Errorf("%w: it was replaced while it was read", storage.ErrUnavailable)
	}
	r.body, r.info, r.cancel = got.body, got.info, got.cancel
	r.watchdog = time.AfterFunc(r.c.stall, got.cancel)
	r.watchdog.Stop()
	return nil
}

func (r *reader) Read(p []byte) (n int, err error) {
	r.watchdog.Reset(r.c.stall)
	n, err = r.body.Read(p)
	r.watchdog.Stop()
	r.offset += int64(n)
	if r.length > 0 {
		r.length = max(r.length-int64(n), 0)
	}
	if err == nil || err == io.EOF { //nolint:errorlint // readers end with EOF itself
		return n, err
	}
	if r.tries++; r.tries > maxReopen || r.ctx.Err() != nil || r.info.Version == "" {
		return n, unavailable(err)
	}
	_ = r.Close()
	if err := r.open(); err != nil {
		return n, err
	}
	return n, nil
}

func (r *reader) Close() error {
	r.cancel()
	return r.body.Close()
}
