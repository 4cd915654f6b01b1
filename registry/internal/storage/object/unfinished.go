package object

import (
	"context"
	"errors"
	"strings"
	"time"

	"slipway/registry/internal/storage"
)

// statUpload describes an upload under way.
func (s *Store) statUpload(ctx context.Context, key string) (storage.Info, error) {
	s.mu.Lock()
	u := s.live[key]
	s.mu.Unlock()
	if u != nil && !s.o.Shared {
		n, _ := u.Progress()
		return storage.Info{Key: key, Size: n, Modified: time.Now()}, nil
	}
	c, version, modified, err := s.shelf.load(ctx, key)
	if err == nil && s.o.Shared {
		s.left.put(key, saved{c: c, version: version}) // for who resumes it now
	}
	return storage.Info{Key: key, Size: c.size(), Modified: modified}, err
}

// deleteUpload removes an upload, whoever holds it.
func (s *Store) deleteUpload(ctx context.Context, key string, before time.Time) error {
	if last, ok := s.left.take(key); ok {
		last.close()
	}
	s.mu.Lock()
	u := s.live[key]
	delete(s.live, key)
	s.mu.Unlock()
	if u != nil {
		u.mu.Lock()
		if !u.done && u.lost == nil {
			u.lost = storage.ErrNotExist
			u.spool.Close()
		}
		u.mu.Unlock()
	}
	if err := s.shelf.remove(ctx, key, before); err != nil {
		return err
	}
	var names []string
	for o, err := range s.Client.List(ctx, beside(key)+".", ListOptions{}) {
		if err != nil {
			return err
		}
		names = append(names, o.Key)
	}
	if len(names) == 0 {
		return nil
	}
	return s.deleteMany(ctx, names, &Change{Before: before})
}

// Leftovers implements storage.Leaver. A writer may have died, or been fenced off, between
// writing a part and noting it.
func (s *Store) Leftovers(ctx context.Context, key string) (storage.Info, error) {
	info := storage.Info{Key: key}
	for o, err := range s.Client.List(ctx, beside(key)+".", ListOptions{}) {
		if err != nil {
			return info, at(key, err)
		}
		info.Size += o.Size
		if o.Modified.After(info.Modified) {
			info.Modified = o.Modified
		}
	}
	if info.Modified.IsZero() {
		return info, at(key, storage.ErrNotExist)
	}
	return info, nil
}

// Clean implements storage.Cleaner.
func (s *Store) Clean(ctx context.Context) error {
	err := s.cleanSpool(time.Now())
	b, ok := s.b.(Multipart)
	if !ok {
		return err
	}
	unfinished, listErr := b.Unfinished(ctx, s.root+strings.TrimPrefix(s.o.Tree+"/", "/"), time.Now().Add(-unfinishedAge))
	err = errors.Join(err, listErr)
	for _, o := range unfinished {
		err = errors.Join(err, unlessAbsent(b.Abort(ctx, o.Key, o.ID)))
	}
	return err
}

// unfinishedAge is older than any request that is under way.
const unfinishedAge = 24 * time.Hour
