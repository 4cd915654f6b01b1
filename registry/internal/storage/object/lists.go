package object

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

const (
	private = ".slipway/"
	// listPrefix is the prefix at which each collection publishes the keys that it is about to delete, under a
	// name of its own: the first eight bytes of the SHA-256 of each key, sorted.
	listPrefix = private + "collect/"
	// listLife is the time for which a collection deletes by a list, from its date on.
	listLife = 80 * time.Second
	// listsFor is the time for which one reading of the lists serves attempts.
	listsFor = 3 * time.Second
	// announced is the time that a collection waits after it has published a list: then attempts that read the
	// lists before that are over.
	announced = storage.AttemptLimit + listsFor + storage.ClockError
	// maxListed bounds a list: what a collection checks and deletes within listLife.
	maxListed = 10_000
)

func hash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:])
}

// list holds the keys that a collection is deleting until a time of the store.
type list struct {
	hashes []uint64
	until  time.Time
}

// reading is the content of the lists when a reading of them began, by the local clock.
type reading struct {
	began time.Time
	lists map[string]list // by name
}

// listed reports whether one of the keys is being deleted. It may say so of others, rarely.
func (r *reading) listed(now time.Time, keys []string) bool {
	for _, l := range r.lists {
		if now.After(l.until) {
			continue
		}
		for _, key := range keys {
			if _, found := slices.BinarySearch(l.hashes, hash(key)); found {
				return true
			}
		}
	}
	return false
}

// lists reads what collections have published. Concurrent attempts share a reading.
type lists struct {
	c *Client

	mu     sync.Mutex
	last   reading
	flight *flight
}

// flight is a reading in progress.
type flight struct {
	reading
	err  error
	done chan struct{}
}

// prefetch starts a reading if the next attempt would have to.
func (l *lists) prefetch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight == nil && storage.Elapsed(l.last.began) > listsFor {
		l.start()
	}
}

// start needs l.mu.
func (l *lists) start() {
	f := &flight{reading: reading{began: time.Now()}, done: make(chan struct{})}
	l.flight = f
	known := l.last.lists
	go func() {
		f.lists, f.err = l.read(context.Background(), known)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.flight = nil; f.err == nil {
			l.last = f.reading
		}
		close(f.done)
	}()
}

// get returns a reading that began after since.
func (l *lists) get(ctx context.Context, since time.Time) (reading, error) {
	for {
		l.mu.Lock()
		if !l.last.began.Before(since) && storage.Elapsed(l.last.began) <= storage.Elapsed(since) {
			defer l.mu.Unlock()
			return l.last, nil
		}
		if l.flight == nil {
			l.start()
		}
		f := l.flight
		l.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return reading{}, ctx.Err()
		}
		if f.err != nil && !f.began.Before(since) {
			return reading{}, fmt.Errorf("cannot read what collections delete: %w", f.err)
		}
	}
}

func (l *lists) read(ctx context.Context, known map[string]list) (map[string]list, error) {
	now := map[string]list{}
	for o, err := range l.c.List(ctx, listPrefix, ListOptions{}) {
		if err != nil {
			return nil, err
		}
		if before, ok := known[o.Key]; ok {
			now[o.Key] = before
			continue
		}
		content, info, err := l.c.Get(ctx, o.Key, 8*maxListed)
		if errors.Is(err, storage.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// A deletion that was sent at the end of the list may be late.
		entry := list{until: info.Modified.Add(listLife + l.c.limits.MaxLate + storage.ClockError)}
		for ; len(content) >= 8; content = content[8:] {
			entry.hashes = append(entry.hashes, binary.BigEndian.Uint64(content))
		}
		now[o.Key] = entry
	}
	return now, nil
}

// publish announces the deletion of objects until withdraw is called.
func (l *lists) publish(ctx context.Context, infos []storage.Info) (withdraw func(), err error) {
	hashes := make([]uint64, len(infos))
	for i, info := range infos {
		hashes[i] = hash(info.Key)
	}
	slices.Sort(hashes)
	var content []byte
	for _, h := range hashes {
		content = binary.BigEndian.AppendUint64(content, h)
	}
	key := listPrefix + rand.Text()
	if _, err := l.c.Put(ctx, key, content, &WriteOptions{}); err != nil {
		return nil, fmt.Errorf("cannot announce what is about to be deleted: %w", err)
	}
	return func() { _ = l.c.Delete(context.WithoutCancel(ctx), key, &WriteOptions{}) }, nil // else it expires
}

// clean removes the lists of collections that died.
func (l *lists) clean(ctx context.Context) error {
	for o, err := range l.c.List(ctx, listPrefix, ListOptions{}) {
		if err != nil {
			return err
		}
		if l.c.b.Now().Sub(o.Modified) < 10*listLife+l.c.limits.MaxLate {
			continue
		}
		if err := l.c.Delete(ctx, o.Key, &WriteOptions{}); err != nil {
			return err
		}
	}
	return nil
}
