package gcs

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage/object"
)

// A URL is signed once for all clients that want it at about the same time.
func TestSignedURL_IsUsedAgain(t *testing.T) {
	g := &cloud{}
	b := g.bucket(t, &Signer{Email: "me@example.com"})
	sign := func(key string, expires time.Duration) string {
		u, err := b.SignedURL(t.Context(), http.MethodGet, key, expires, object.URLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := sign("a", time.Hour)
	if again := sign("a", time.Hour); again != first {
		t.Errorf("another URL: %s", again)
	}
	if other := sign("b", time.Hour); !strings.Contains(other, "/bucket/b?") {
		t.Errorf("URL of another object: %s", other)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.requests) != 2 {
		t.Errorf("signed %d times, want 2: %v", len(g.requests), g.requests)
	}
}

func TestURLs(t *testing.T) {
	u, now := &urls{}, time.Now()
	id := func(i int) urlID { return urlID{key: strconv.Itoa(i)} }
	u.put(id(0), "zero", now.Add(time.Minute))
	for when, want := range map[time.Time]bool{now: true, now.Add(time.Minute): false} {
		if got, ok := u.get(id(0), when); ok != want || got != "zero" {
			t.Errorf("%v later: %q, %v", when.Sub(now), got, ok)
		}
	}
	for i := range 5 * maxURLs {
		u.put(id(i), "x", now.Add(time.Minute))
		if n := len(u.recent) + len(u.old); n > 2*maxURLs {
			t.Fatalf("it holds %d URLs", n)
		}
	}
	if _, ok := u.get(id(5*maxURLs-1), now); !ok {
		t.Error("the last URL is forgotten")
	}
	if _, ok := u.get(id(0), now); ok {
		t.Error("the first URL is remembered")
	}
}
