package gcs

import (
	"sync"
	"time"
)

// maxURLs is how many signed URLs one generation holds, of about 1 KiB each.
const maxURLs = 1024

// urls remembers signed URLs. When the recent ones are maxURLs, they become the old ones,
// and those are forgotten. The zero value is ready.
type urls struct {
	mu          sync.Mutex
	recent, old map[urlID]signedURL
}

// urlID is what a URL was signed for.
type urlID struct {
	method, key, contentType string
	expires                  time.Duration
}

type signedURL struct {
	url   string
	until time.Time
}

func (u *urls) get(id urlID, now time.Time) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, ok := u.recent[id]
	if !ok {
		s, ok = u.old[id]
	}
	return s.url, ok && now.Before(s.until)
}

func (u *urls) put(id urlID, url string, until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.recent == nil || len(u.recent) >= maxURLs {
		u.old, u.recent = u.recent, map[urlID]signedURL{}
	}
	u.recent[id] = signedURL{url, until}
}
