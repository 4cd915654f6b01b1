package matrix

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestJoinSuccessor_Undecided: a bot that joined a room and could not read its predecessor stays, because its invitation is used up. The
// next attempt decides.
func TestJoinSuccessor_Undecided(t *testing.T) {
	for _, tt := range []struct {
		predecessor string
		stays       bool
	}{{"!old:hs", true}, {"!other:hs", false}} {
		var mu sync.Mutex
		joined, readable, left := false, false, 0
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
			case strings.HasSuffix(path, "/state/m.room.create/") && readable:
				_, _ = io.WriteString(w, `{"predecessor":{"room_id":"`+tt.predecessor+`"}}`)
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
		attempt := func() error { return c.joinSuccessor(t.Context(), "!old:hs", "!new:hs", "hs") }
		if err := attempt(); !hasClass(err, ClassRetry) || !joined || left != 0 {
			t.Errorf("%s: error %v, in the room %v, left %d times", tt.predecessor, err, joined, left)
		}
		mu.Lock()
		readable = true
		mu.Unlock()
		for range 2 { // the second one changes nothing, or joins and leaves again
			if err := attempt(); (err == nil) != tt.stays || err != nil && !errors.Is(err, ErrNotSuccessor) || joined != tt.stays {
				t.Errorf("%s: error %v, in the room %v", tt.predecessor, err, joined)
			}
		}
		if (left > 0) == tt.stays {
			t.Errorf("%s: left %d times", tt.predecessor, left)
		}
	}
}
