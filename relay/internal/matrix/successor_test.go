package matrix

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestJoinSuccessor_CheckFailsAfterJoin_Leaves: the bot doesn't stay in a room whose predecessor it could not read.
func TestJoinSuccessor_CheckFailsAfterJoin_Leaves(t *testing.T) {
	var mu sync.Mutex
	joined, left := false, 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/account/whoami"):
			_, _ = io.WriteString(w, `{"user_id":"@bot:hs","device_id":"D"}`)
		case strings.Contains(path, "/join/"):
			joined = true
			_, _ = io.WriteString(w, `{"room_id":"!new:hs"}`)
		case strings.HasSuffix(path, "/leave"):
			joined = false
			left++
			_, _ = io.WriteString(w, `{}`)
		case strings.HasSuffix(path, "/state/m.room.create/") && !joined:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errcode":"M_FORBIDDEN"}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(hs.Close)
	c, err := New(Options{Homeserver: hs.URL, AccessToken: "t", Store: newStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = c.joinSuccessor(t.Context(), "!old:hs", "!new:hs", "hs")
	mu.Lock()
	defer mu.Unlock()
	if !hasClass(err, ClassRetry) || joined || left != 1 {
		t.Errorf("error %v, in the room %v, left %d times", err, joined, left)
	}
}
