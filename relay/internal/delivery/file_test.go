package delivery_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
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
		"nobody knows":         {false, false, 0, "is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				var once sync.Once
				r.HS.Findable = tt.findable
				r.HS.Script = func(out matrix.Outgoing, _ int) (a *relaytest.Answer) {
					if strings.Contains(string(out.Content), `"m.file"`) {
						once.Do(func() {
							a = &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: tt.stored}
						})
						if a != nil {
							time.AfterFunc(time.Millisecond, func() {
								r.HS.Do(func() { r.HS.DeviceID = "DEV2" })
							})
						}
					}
					return a
				}
				r.Start()
				synctest.Wait()
				id := r.Post(r.NewApp("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
				time.Sleep(time.Hour)
				files := 0
				r.HS.Mu.Lock()
				for _, e := range r.HS.Events["!a:hs"] {
					if e.Kind == "m.file" {
						files++
					}
				}
				r.HS.Mu.Unlock()
				if m := r.Stored(id); m.State != post.StateSent || files != tt.files || !strings.Contains(m.Error, tt.err) {
					t.Errorf("%s, %d files, %q", m.State, files, m.Error)
				}
			})
		})
	}
}

// A homeserver that refuses even a short event gets a notice, and the text as a file.
func TestTooLarge_AlsoWhenShort_BecomesAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			if len(out.Content) > 1000 {
				a := relaytest.Fails(matrix.ClassTooLarge)
				return &a
			}
			return nil
		}
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!a:hs").Token, strings.Repeat("long ", 800))
		r.Await(id, post.StateSent)
		r.Drained()
		got := r.HS.Bodies("!a:hs")
		if m := r.Stored(id); m.Error != "" || len(got) != 2 || !strings.Contains(got[0], "in the file") || got[1] != "message.md" {
			t.Errorf("the room has %q, and the message says %q", got, m.Error)
		}
	})
}

// A message that brings the parser to panic is dead, and those behind it are sent.
func TestRender_Panics_OnlyThatMessageIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer delivery.ReplaceRender(func(m format.Message, o format.Options) []format.Event {
			if m.Body == "bad" {
				panic("parser")
			}
			return format.Events(m, o)
		})()
		r := relaytest.NewRig(t)
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		bad, good := r.Post(app.Token, "bad"), r.Post(app.Token, "good")
		r.Await(good, post.StateSent)
		if m := r.Stored(bad); m.State != post.StateDead || m.Error != "The message cannot be rendered." {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if got := r.HS.Bodies("!a:hs"); len(got) != 1 || got[0] != "good" {
			t.Errorf("the room has %q", got)
		}
		r.Shutdown()
	})
}
