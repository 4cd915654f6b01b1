package filesystem

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

const (
	maxState  = 4 << 10 // bytes of a state
	maxStates = 1024    // a state that is forgotten costs reading the upload again
)

// states holds what was given to Suspend, by key.
type states struct {
	mu    sync.Mutex
	known map[string]state
}

// state belongs to one file as long as it isn't written.
type state struct {
	file  string // its token
	state []byte
}

// keep remembers the state of the file that is open as fd.
func (s *states) keep(key string, fd int, given []byte) error {
	if len(given) > maxState {
		return fmt.Errorf("suspend %s: a state of %d bytes: %w", key, len(given), storage.ErrTooLarge)
	}
	var st unix.Stat_t
	if given == nil || unix.Fstat(fd, &st) != nil {
		s.take(key)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]state{}
	}
	for other := range s.known {
		if len(s.known) < maxStates {
			break
		}
		delete(s.known, other) // any of them
	}
	s.known[key] = state{token(&st), bytes.Clone(given)}
	return nil
}

// take forgets the state of key and returns it.
func (s *states) take(key string) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key]
	delete(s.known, key)
	return known
}
