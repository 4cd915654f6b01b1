package api

import (
	"cmp"
	"slices"
	"sync"
)

// ntfyChange is a publisher's request to delete or clear a sequence.
type ntfyChange struct {
	application int64
	kind        string // of the event
	sequence    string
	after       int64 // the ID of a message, perhaps the edit that acknowledges, which subscribers get before
}

// maxChanges bounds the changes that wait for one subscriber, which misses further ones as if it were disconnected.
const maxChanges = 64

// ntfyChanges passes changes to the subscribers at this relay.
type ntfyChanges struct {
	mu          sync.Mutex
	subscribers map[chan ntfyChange][]int64 // with the applications whose changes they get
}

// subscribe returns the changes of applications until release is called.
func (c *ntfyChanges) subscribe(applications []int64) (changes <-chan ntfyChange, release func()) {
	to := make(chan ntfyChange, maxChanges)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscribers == nil {
		c.subscribers = map[chan ntfyChange][]int64{}
	}
	c.subscribers[to] = applications
	return to, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, to)
	}
}

func (c *ntfyChanges) publish(change ntfyChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to, applications := range c.subscribers {
		if !slices.Contains(applications, change.application) {
			continue
		}
		select {
		case to <- change:
		default:
		}
	}
}

// reads returns the application whose messages the reader may read.
func (r *ntfyReader) reads() int64 { return cmp.Or(r.application, r.v.ApplicationID) }
