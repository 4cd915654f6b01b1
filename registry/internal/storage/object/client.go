package object

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// Client sends requests to a bucket until it is known what they did, or until its
// patience is over. Keys are relative to its root.
type Client struct {
	b        Bucket
	root     string
	limits   Limits
	timeout  time.Duration // of one small request
	patience time.Duration // for all tries of one
	pause    time.Duration // before the second try
	stall    time.Duration // for a body that does not move

	mu      sync.Mutex
	changes int       // in progress
	lost    time.Time // when the last request ended that got no answer
	ended   bool      // no more changes
}

// Timing bounds what a Client waits for. The zero value is right.
type Timing struct {
	Request  time.Duration // one small request; 0 = 10 s
	Patience time.Duration // all tries of one request; 0 = 15 s
	Pause    time.Duration // before the second try; later ones double; 0 = 25 ms
}

// NewClient returns a client of the keys below root, "" or a path without slashes at
// its ends.
func NewClient(b Bucket, root string, limits Limits, t Timing) *Client {
	if root != "" {
		root += "/"
	}
	return &Client{
		b: b, root: root, limits: limits, stall: time.Minute,
		timeout: cmp.Or(t.Request, 10*time.Second), patience: cmp.Or(t.Patience, 15*time.Second),
		pause: cmp.Or(t.Pause, 25*time.Millisecond),
	}
}

// Limits returns the abilities of the store that the client relies on.
func (c *Client) Limits() Limits { return c.limits }

// slowest is the number of bytes a second below which a request counts as hung.
const slowest = 256 << 10

// slowestCopy is that of a store which copies by itself.
const slowestCopy = 8 << 20

const maxPause = 2 * time.Second

// wait waits before the next try. It is false if there is none.
func (c *Client) wait(ctx context.Context, try int, t *Trouble, deadline time.Time) bool {
	d := min(c.pause<<min(try, 10), maxPause)
	d = d/2 + mathrand.N(d/2+1)
	if t != nil {
		d = max(d, min(t.After, 5*time.Second))
	}
	if time.Now().Add(d).After(deadline) {
		return false
	}
	return sleep(ctx, d) == nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asTrouble returns the Trouble inside err, if there is one. A request that reached its
// own deadline got no answer.
func asTrouble(err error) (*Trouble, bool) {
	if t, ok := errors.AsType[*Trouble](err); ok {
		return t, true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Trouble{Err: err}, true
	}
	return nil, false
}

// read sends a request that changes nothing, again if it fails.
func read[T any](ctx context.Context, c *Client, request func(context.Context) (T, error)) (v T, err error) {
	deadline := time.Now().Add(c.patience)
	for try := 0; ; try++ {
		one, cancel := context.WithTimeout(ctx, c.timeout)
		v, err = request(one)
		cancel()
		t, again := asTrouble(err)
		switch {
		case !again:
			return v, err
		case ctx.Err() == nil && c.wait(ctx, try, t, deadline):
		case ctx.Err() != nil:
			return v, ctx.Err()
		default:
			return v, unavailable(err)
		}
	}
}

func unavailable(err error) error {
	if errors.Is(err, storage.ErrTemporary) {
		return err
	}
	return fmt.Errorf("%w: %w: %w", storage.ErrUnavailable, storage.ErrTemporary, err)
}

// Head describes an object.
func (c *Client) Head(ctx context.Context, key string) (Info, error) {
	return read(ctx, c, func(ctx context.Context) (Info, error) { return c.b.Head(ctx, c.root+key) })
}

// Get reads an object of at most limit bytes.
func (c *Client) Get(ctx context.Context, key string, limit int64) ([]byte, Info, error) {
	type result struct {
		content []byte
		info    Info
	}
	got, err := read(ctx, c, func(ctx context.Context) (result, error) {
		body, info, err := c.b.Get(ctx, c.root+key, 0, -1)
		if err != nil {
			return result{}, err
		}
		defer body.Close()
		if info.Size > limit {
			return result{}, fmt.Errorf("%s has %d bytes: %w", key, info.Size, storage.ErrTooLarge)
		}
		content := make([]byte, info.Size)
		if _, err := io.ReadFull(body, content); err != nil {
			return result{}, &Trouble{Err: err}
		}
		return result{content, info}, nil
	})
	return got.content, got.info, err
}

// GetJSON reads an object into v.
func (c *Client) GetJSON(ctx context.Context, key string, v any) (Info, error) {
	content, info, err := c.Get(ctx, key, 32<<20)
	if err == nil {
		err = json.Unmarshal(content, v)
	}
	return info, err
}

// List yields the objects below prefix, page by page.
func (c *Client) List(ctx context.Context, prefix string, o ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for {
			page, err := c.page(ctx, prefix, o)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			o.After = page.Next
		}
	}
}

// page reads one page, whose Next is set if there is more.
func (c *Client) page(ctx context.Context, prefix string, o ListOptions) (Page, error) {
	if o.After != "" {
		o.After = c.root + o.After
	}
	folds := o.Delimited && c.limits.ListsDeleted
	o.Delimited = o.Delimited && !folds
	page, err := read(ctx, c, func(ctx context.Context) (Page, error) { return c.b.List(ctx, c.root+prefix, o) })
	if err != nil {
		return page, err
	}
	if folds {
		fold(&page, c.root+prefix)
	}
	if page.More && page.Next == "" {
		if len(page.Entries) == 0 {
			return page, fmt.Errorf("%w: a page of the listing of %s is empty and is not the last", storage.ErrUnavailable, prefix)
		}
		page.Next = page.Entries[len(page.Entries)-1].Key
	}
	if page.More {
		page.Next = page.Next[len(c.root):]
	}
	for i := range page.Entries {
		page.Entries[i].Key = page.Entries[i].Key[len(c.root):]
	}
	return page, nil
}

// fold makes a page of keys below a prefix one of a delimited listing, which continues after what the last entry stands for.
func fold(page *Page, prefix string) {
	entries := page.Entries[:0]
	for _, e := range page.Entries {
		if child, _, deep := strings.Cut(e.Key[len(prefix):], "/"); deep {
			e = Info{Key: prefix + child + "/", Prefix: true}
		}
		if n := len(entries); n == 0 || entries[n-1].Key != e.Key {
			entries = append(entries, e)
		}
	}
	page.Entries = entries
	if n := len(entries); page.More && n > 0 && entries[n-1].Prefix {
		page.Next = entries[n-1].Key + "~" // after all bytes of keys
	}
}

// WriteOptions describe how an object is written or deleted.
type WriteOptions struct {
	If storage.Condition
	// Before is the time from which nothing more is sent, the zero time for never.
	Before time.Time
	// Settle has the change return only when no request of it can take effect any more.
	Settle bool
	// Versioned has a put return the version of what it wrote, ErrConflict if that was
	// overwritten already.
	Versioned bool
	// Lost says afterwards that a request got no answer: it may take effect yet, unless the
	// change has settled.
	Lost bool
}

// Put writes a small object. Of a version it says nothing where the store does not.
func (c *Client) Put(ctx context.Context, key string, content []byte, how *WriteOptions) (version string, err error) {
	return c.put(ctx, key, Body{Content: bytes.NewReader(content), Size: int64(len(content))}, true, how)
}

// PutJSON writes v.
func (c *Client) PutJSON(ctx context.Context, key string, v any, how *WriteOptions) (version string, err error) {
	content, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return c.Put(ctx, key, content, how)
}

func (c *Client) put(ctx context.Context, key string, body Body, expire bool, how *WriteOptions) (version string, err error) {
	o := PutOptions{If: how.If, Expire: expire, Writer: rand.Text()}
	return c.write(ctx, key, o.Writer, body.Size, how, func(ctx context.Context) (string, error) {
		return c.b.Put(ctx, c.root+key, body, o)
	})
}

// compose joins objects. Sources have keys of the client.
func (c *Client) compose(ctx context.Context, key string, sources []Source, how *WriteOptions) (version string, err error) {
	o := PutOptions{If: how.If, Writer: rand.Text()}
	var size int64 // as that of a body which takes as long
	absolute := make([]Source, len(sources))
	for i, s := range sources {
		absolute[i] = Source{c.root + s.Key, s.Size}
		size += s.Size / (slowestCopy / slowest)
	}
	return c.write(ctx, key, o.Writer, size, how, func(ctx context.Context) (string, error) {
		return c.b.Compose(ctx, c.root+key, absolute, o)
	})
}

// write sends a request that writes an object. Whether one took effect that got no answer is
// told by the object's writer.
func (c *Client) write(ctx context.Context, key, writer string, size int64, how *WriteOptions, request func(context.Context) (string, error)) (version string, err error) {
	err = c.change(ctx, size, how, func(ctx context.Context) (err error) {
		version, err = request(ctx)
		return err
	}, func() (bool, error) {
		info, err := c.Head(ctx, key)
		if err == nil && info.Writer == writer {
			version = info.Version
			return true, nil
		}
		return false, unlessAbsent(err)
	})
	if err != nil || version != "" || !how.Versioned {
		return version, err
	}
	info, err := c.Head(ctx, key)
	if errors.Is(err, storage.ErrNotExist) || err == nil && info.Writer != writer {
		err = storage.ErrConflict
	}
	return info.Version, err
}

// touch makes Modified of the object of that version now.
func (c *Client) touch(ctx context.Context, key, version string, how *WriteOptions) error {
	return c.change(ctx, 0, how, func(ctx context.Context) error { return c.b.Touch(ctx, c.root+key, version) }, nil)
}

// Delete deletes an object, which may be absent unless a version is asked for.
func (c *Client) Delete(ctx context.Context, key string, how *WriteOptions) error {
	if c.limits.BlindDelete && how.If != (storage.Condition{}) {
		if _, err := c.Head(ctx, key); errors.Is(err, storage.ErrNotExist) {
			return storage.ErrConflict
		}
	}
	err := c.change(ctx, 0, how, func(ctx context.Context) error {
		return c.b.Delete(ctx, c.root+key, how.If)
	}, func() (bool, error) {
		_, err := c.Head(ctx, key)
		return errors.Is(err, storage.ErrNotExist), unlessAbsent(err)
	})
	if errors.Is(err, storage.ErrNotExist) {
		if how.If == (storage.Condition{}) {
			return nil
		}
		return storage.ErrConflict
	}
	return err
}

// deleteMany deletes objects that may be absent, with few requests if the store can.
func (c *Client) deleteMany(ctx context.Context, keys []string, how *WriteOptions) error {
	each := func(keys []string) error {
		return storage.Each(len(keys), storage.AtOnce, func(i int) error {
			how := *how
			return c.Delete(ctx, keys[i], &how)
		})
	}
	if len(keys) < 2 || c.limits.MaxDelete < 2 {
		return each(keys)
	}
	for some := range slices.Chunk(keys, c.limits.MaxDelete) {
		absolute := make([]string, len(some))
		for i, key := range some {
			absolute[i] = c.root + key
		}
		err := c.change(ctx, 0, how, func(ctx context.Context) error { return c.b.DeleteMany(ctx, absolute) }, nil)
		if errors.Is(err, errors.ErrUnsupported) {
			err = each(some)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change sends a request until it is known what it did. done reports whether what was asked
// for is the case; nil where there is no condition.
func (c *Client) change(ctx context.Context, size int64, how *WriteOptions, request func(context.Context) error, done func() (bool, error)) error {
	if !c.begin() {
		return fmt.Errorf("%w: the storage is closed", storage.ErrUnavailable)
	}
	begun := time.Now()
	var last time.Time // when the last request ended that got no answer
	defer func() { c.done(last) }()
	// A large body that fails late is sent again: once, if the store is as slow as it may be.
	err := c.tryChange(ctx, size, how, request, done, begun.Add(c.patience+transfer(size)), &last)
	if !last.IsZero() {
		how.Lost = true
		if how.Settle {
			// Not even the end of ctx makes it settle earlier.
			time.Sleep(time.Until(last.Add(c.limits.MaxLate)))
		}
	}
	return err
}

// begin reports whether a change may begin.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.changes++
	}
	return !c.ended
}

// done is called at the end of a change. lost is zero if all its requests got an answer.
func (c *Client) done(lost time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes--
	if lost.After(c.lost) {
		c.lost = lost
	}
}

// end keeps changes from beginning, and reports whether none can take effect any more.
func (c *Client) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return c.changes == 0 && (c.lost.IsZero() || storage.Elapsed(c.lost) > c.limits.MaxLate)
}

// transfer returns the longest time for a body of that size.
func transfer(size int64) time.Duration { return time.Duration(size/slowest) * time.Second }

type sentKey struct{}

// WithSent is ctx for a request that it was decided then to send.
func WithSent(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, sentKey{}, t)
}

// Sent returns when it was decided to send the request of ctx, otherwise now. Expiry counts from
// then: the process may have been stopped since.
func Sent(ctx context.Context) time.Time {
	if t, ok := ctx.Value(sentKey{}).(time.Time); ok {
		return t
	}
	return time.Now()
}

func (c *Client) tryChange(ctx context.Context, size int64, how *WriteOptions, request func(context.Context) error, done func() (bool, error), deadline time.Time, last *time.Time) error {
	conditional := how.If != (storage.Condition{})
	doubt := false
	for try := 0; ; try++ {
		now := time.Now()
		if !how.Before.IsZero() && storage.Elapsed(how.Before) >= 0 {
			return storage.ErrExpired
		}
		one, cancel := context.WithTimeout(WithSent(ctx, now), c.timeout+transfer(size))
		err := request(one)
		cancel()
		t, again := asTrouble(err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.Canceled): // the store may have the request
			*last = time.Now()
			return err
		case again:
			if t.Effect == Lost {
				*last = time.Now()
			}
			doubt = doubt || t.Effect != Refused
			if ctx.Err() != nil {
				return unavailable(ctx.Err())
			}
			if !c.wait(ctx, try, t, deadline) {
				return c.outcome(conditional && doubt, done, unavailable(err))
			}
			if conditional && doubt {
				if ok, err := done(); ok || err != nil {
					return err
				}
			}
		case doubt && conditional && (errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotExist)):
			// Either an earlier request took effect and was overwritten, or another writer was first.
			return c.outcome(true, done, fmt.Errorf("%w: the outcome of a request is unknown", storage.ErrUnavailable))
		default:
			return err
		}
	}
}

// outcome returns nil if the requested change is in effect after all, otherwise err.
func (c *Client) outcome(look bool, done func() (bool, error), err error) error {
	if look {
		if ok, lookErr := done(); ok && lookErr == nil {
			return nil
		}
	}
	return err
}

func unlessAbsent(err error) error {
	if errors.Is(err, storage.ErrNotExist) {
		return nil
	}
	return err
}
