package registry

import (
	"context"
	"hash"
	"sync"
	"time"

	"slipway/registry/internal/oci"
)

// sessions knows which request works on which upload in this process, so that
// a new one takes over from one that hangs, and keeps the running hashes
// between requests. Between processes it is the driver that fences.
type sessions struct {
	mu   sync.Mutex
	live map[string]*Upload
	kept *cache[string, progress]
}

// progress is what is known of an upload between two requests. Losing it costs
// reading again.
type progress struct {
	startedAt time.Time
	alg       oci.Algorithm
	hash      hash.Hash
	hashed    int64 // bytes in hash
	empty     bool  // this process has begun it and no bytes came yet
}

func newSessions() *sessions {
	return &sessions{live: map[string]*Upload{}, kept: newCache[string, progress](progressCache)}
}

// take makes u the holder of its upload and busy, so that requests take over
// one after the other: the caller opens the upload and calls end. The holder
// before is told to stop; while it is busy, it is waited for.
func (s *sessions) take(ctx context.Context, u *Upload) error {
	for {
		old, busy := s.tryTake(u)
		if busy == nil {
			if old != nil {
				old.tell()
			}
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell lets the upload know that it was taken over.
func (u *Upload) tell() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.taken)
	if u.onTaken != nil {
		u.onTaken()
	}
}

// OnTaken calls f, which is quick, when another request takes the upload over, or
// at once if that has happened; not any more after the next call. nil stands for
// nothing.
func (u *Upload) OnTaken(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.onTaken = f
	select {
	case <-u.taken:
		if f != nil {
			f()
		}
	default:
	}
}

// tryTake replaces the holder, or returns what to wait for first.
func (s *sessions) tryTake(u *Upload) (old *Upload, busy <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.live[u.key]
	if old != nil && old.busy != nil {
		return nil, old.busy
	}
	s.live[u.key] = u
	u.busy = make(chan struct{})
	return old, nil
}

// begin makes u busy with what must not be interrupted: nobody takes the upload
// over until end.
func (s *sessions) begin(u *Upload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[u.key] != u {
		return ErrUploadTaken
	}
	u.busy = make(chan struct{})
	return nil
}

func (s *sessions) end(u *Upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(u.busy)
	u.busy = nil
}

// release ends u's hold, if it still has it. The progress is kept unless the
// upload is gone.
func (s *sessions) release(u *Upload, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[u.key] != u {
		return
	}
	delete(s.live, u.key)
	if !gone {
		s.kept.put(u.key, u.progress, 1)
	}
}

// held says whether a request works on the upload.
func (s *sessions) held(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[key] != nil
}

// sessionKey names an upload among those of all repositories.
func sessionKey(name oci.Name, id string) string { return string(name) + "@" + id }
