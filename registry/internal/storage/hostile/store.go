package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"time"

	"slipway/registry/internal/storage"
)

func valid(key string) error {
	if !storage.ValidKey(key) {
		return fmt.Errorf("%q: %w", key, storage.ErrInvalidKey)
	}
	return nil
}

// at says what failed where.
func at(key string, err error) error {
	if errors.Is(err, errMissing) {
		err = storage.ErrNotExist
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

func (o *object) info(key string) storage.Info {
	return storage.Info{Key: key, Size: int64(len(o.content)), Modified: o.modified, Version: o.version}
}

// Stat implements storage.Store.
func (p *Process) Stat(_ context.Context, key string) (storage.Info, error) {
	if err := valid(key); err != nil {
		return storage.Info{}, err
	}
	o, err := p.get("HEAD", key)
	if err == nil {
		return o.info(key), nil
	}
	if !errors.Is(err, errMissing) {
		return storage.Info{}, at(key, err)
	}
	c, o, err := p.checkpoint(key)
	if err != nil {
		return storage.Info{}, at(key, err)
	}
	return storage.Info{Key: key, Size: c.size(), Modified: o.modified}, nil
}

// Open implements storage.Store.
func (p *Process) Open(_ context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	o, err := p.get("GET", key)
	if err != nil {
		return nil, at(key, err)
	}
	content := o.content[min(offset, int64(len(o.content))):]
	if length >= 0 {
		content = content[:min(length, int64(len(content)))]
	}
	return &storage.Object{Info: o.info(key), ReadCloser: io.NopCloser(bytes.NewReader(content))}, nil
}

// List implements storage.Store. What changes meanwhile is listed or not.
func (p *Process) List(_ context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if err := valid(prefix); err != nil {
			yield(storage.Info{}, err)
			return
		}
		for n, err := range p.list(prefix+"/", o.After, o.Flat) {
			switch {
			case err != nil:
				yield(storage.Info{}, at(prefix, err))
				return
			case n.prefix && !yield(storage.Info{Key: n.key, Prefix: true}, nil):
				return
			case !n.prefix && o.Names && !yield(storage.Info{Key: n.key}, nil):
				return
			case !n.prefix && !o.Names && !yield(n.info(n.key), nil):
				return
			}
		}
	}
}

func (p *Process) list(prefix, after string, flat bool) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		for more := true; more; {
			names, err := read(p, func() (names []listed, err error) {
				names, more, err = p.b.list(prefix, after, flat)
				return names, err
			})
			if err != nil {
				yield(listed{}, err)
				return
			}
			for _, n := range names {
				if after = n.key; !yield(n, nil) {
					return
				}
			}
		}
	}
}

// Generation implements storage.Store: nothing tells.
func (p *Process) Generation(context.Context, string) string { return "" }

// Apply implements storage.Store.
func (p *Process) Apply(ctx context.Context, s storage.Section, stages ...storage.Stage) (err error) {
	ctx = context.WithoutCancel(ctx)
	defer endUploads(stages)
	for _, stage := range stages {
		for _, c := range stage {
			if err := valid(c.Key); err != nil {
				return err
			}
		}
	}
	var before time.Time
	if s != nil {
		if e, ok := s.(interface{ Ended() bool }); ok && e.Ended() {
			return storage.ErrExpired
		}
		before = s.Deadline()
	}
	for _, stage := range stages {
		for _, c := range stage {
			if err := p.apply(ctx, c, before); err != nil {
				return at(c.Key, err)
			}
		}
	}
	return nil
}

func (p *Process) apply(ctx context.Context, c storage.Change, before time.Time) error {
	cond := condition{c.If.Absent(), c.If.Version()}
	if p.b.o.NoConditions || p.b.o.DeleteIgnoresConditions {
		// Only a lock that every change takes makes conditions hold.
		unlock, err := p.lockKey(ctx, "key", c.Key)
		if err != nil {
			return err
		}
		defer unlock()
		if err := p.compare(c.Key, cond); err != nil {
			return err
		}
		cond = condition{}
	}
	switch {
	case c.Delete:
		return errors.Join(p.delete(c.Key, cond, before), p.deleteUpload(c.Key, before))
	case c.Renew:
		return p.renew(c, cond, before)
	case c.Upload != nil:
		u, ok := c.Upload.(*upload)
		if !ok || u.p.b != p.b {
			return fmt.Errorf("upload %T of another store", c.Upload)
		}
		return u.place(c.Key, cond, before)
	default:
		return p.put(c.Key, c.Content, cond, before)
	}
}

// compare looks whether a condition holds that the service ignores.
func (p *Process) compare(key string, c condition) error {
	if !c.asked() {
		return nil
	}
	o, err := p.get("HEAD", key)
	switch {
	case err != nil && !errors.Is(err, errMissing):
		return err
	case c.absent != (err != nil) || c.version != "" && o.version != c.version:
		return storage.ErrConflict
	}
	return nil
}

// renew writes the object again, unless it is another by now.
func (p *Process) renew(c storage.Change, cond condition, before time.Time) error {
	for range tries {
		o, err := p.get("HEAD", c.Key)
		if err != nil {
			return err
		}
		if cond.version != "" && cond.version != o.version {
			return storage.ErrConflict
		}
		err = p.put(c.Key, c.Content, condition{version: o.version}, before)
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return storage.ErrUnavailable
}

// lockKey waits for the lock that changes of key take, which are of one kind.
func (p *Process) lockKey(ctx context.Context, kind, key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key)
	name := fmt.Sprintf("%s%d", kind, h.Sum32()%256)
	for {
		l, err := p.Lock(ctx, name)
		if err == nil {
			return l.Release, nil
		}
		if !errors.Is(err, storage.ErrBusy) {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}
