package object

import (
	"os"
	"slices"
	"sync"
)

// left remembers the checkpoints that this process has lately saved or seen, so that the next
// request of an upload need not read them. Who goes on from one replaces it under the condition
// that it is still the same.
type left struct {
	mu    sync.Mutex
	saved map[string]saved
	order []string // oldest first
}

type saved struct {
	c       checkpoint
	version string
	// spool holds what follows the parts, so that it need not be read again; nil = it was not kept.
	// Who takes it closes it.
	spool *os.File
}

func (s saved) close() {
	if s.spool != nil {
		s.spool.Close()
	}
}

// maxLeft bounds them: each has up to maxTail bytes and an open file.
const maxLeft = 128

func (l *left) put(key string, s saved) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.saved == nil {
		l.saved = map[string]saved{}
	}
	old, known := l.saved[key]
	if known && old.version == s.version && s.spool == nil {
		return
	}
	old.close()
	if !known {
		l.order = append(l.order, key)
	}
	l.saved[key] = s
	for len(l.order) > maxLeft {
		l.saved[l.order[0]].close()
		delete(l.saved, l.order[0])
		l.order = l.order[1:]
	}
}

// take returns what is remembered and forgets it.
func (l *left) take(key string) (s saved, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok = l.saved[key]; ok {
		delete(l.saved, key)
		i := slices.Index(l.order, key)
		l.order = slices.Delete(l.order, i, i+1)
	}
	return s, ok
}

// close forgets everything.
func (l *left) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.saved {
		s.close()
	}
	l.saved, l.order = nil, nil
}
