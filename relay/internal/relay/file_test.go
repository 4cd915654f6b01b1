package relay

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The file behind a cut message is in the room once, too: its answer is lost, and the
// homeserver would not know a repeat because the bot has a new device by then.
func TestFileIsSentOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, findable bool
		files            int
		err              string
	}{
		"arrived":              {true, true, 1, ""},
		"did not arrive":       {false, true, 1, ""},
		"arrived, nobody sees": {true, false, 1, ""},
		"nobody knows":         {false, false, 0, "cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var once sync.Once
				r.hs.findable = tt.findable
				r.hs.script = func(out Outgoing, _ int) (a *answer) {
					if strings.Contains(string(out.Content), `"m.file"`) {
						once.Do(func() {
							a = &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: tt.stored}
						})
						if a != nil {
							time.AfterFunc(time.Millisecond, func() {
								r.hs.mu.Lock()
								r.hs.device = "DEV2"
								r.hs.mu.Unlock()
							})
						}
					}
					return a
				}
				r.run()
				synctest.Wait()
				id := r.send(r.app("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
				time.Sleep(time.Hour)
				files := 0
				r.hs.mu.Lock()
				for _, e := range r.hs.events["!a:hs"] {
					if e.kind == "m.file" {
						files++
					}
				}
				r.hs.mu.Unlock()
				if m := r.message(id); m.State != StateSent || files != tt.files || !strings.Contains(m.Error, tt.err) {
					t.Errorf("%s, %d files, %q", m.State, files, m.Error)
				}
			})
		})
	}
}
