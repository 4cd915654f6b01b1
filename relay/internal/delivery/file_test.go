package delivery_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// report returns a message that is too long for an event, in which each line occurs once.
func report(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "- line **%d** of the report\n", i)
	}
	return b.String()
}

// wantReport fails unless the room has the beginning of a report, the file with all of it, and a message behind that.
func wantReport(r *relaytest.Rig, text, next string) {
	r.T.Helper()
	bodies := r.HS.Bodies("!a:hs")
	if len(bodies) != 3 || bodies[1] != "message.md" || bodies[2] != next {
		r.T.Fatalf("the room has %d events: %.40q", len(bodies), bodies)
	}
	if !strings.HasPrefix(bodies[0], "• line 0 of the report\n• line 1 of") || !strings.HasSuffix(bodies[0], "of the report\n… The whole text is in the file below.") {
		r.T.Errorf("the event: %.60q … %q", bodies[0], bodies[0][len(bodies[0])-60:])
	}
	r.HS.Mu.Lock()
	defer r.HS.Mu.Unlock()
	if file := r.HS.Files[len(r.HS.Files)-1]; strings.TrimSpace(file) != strings.TrimSpace(text) {
		r.T.Errorf("the file has %d bytes, want %d", len(file), len(text))
	}
}

// isFile reports whether an event is a file. The end of its transaction's id doesn't tell: those of messages are random.
func isFile(out matrix.Outgoing) bool {
	return bytes.Contains(out.Content, []byte(`"msgtype":"m.file"`))
}

// A long message is in the room once, as its beginning and a file, before the next message, whatever happens to the answers and to
// the relay; withdrawn, it leaves nothing.
func TestLongMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		file                          bool // only the file fails
		fails, stored, crash, devices bool
	}{
		"answered": {}, "the event is not sent": {fails: true}, "the event's answer is lost": {fails: true, stored: true},
		"the file's answer is lost": {file: true, fails: true, stored: true}, "the file is not sent": {file: true, fails: true},
		"killed before the file": {file: true, fails: true, crash: true}, "killed after the file": {file: true, fails: true, stored: true, crash: true},
		"killed before the event": {fails: true, crash: true}, "killed after the event": {fails: true, stored: true, crash: true},
		"killed, another device": {file: true, fails: true, stored: true, crash: true, devices: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
					if !tt.fails || n > 1 || tt.file && !isFile(out) {
						return nil
					}
					if tt.devices {
						time.AfterFunc(time.Millisecond, func() {
							r.HS.Do(func() { r.HS.DeviceID = "DEV2" })
						})
					}
					return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: tt.stored}
				}
				r.Start()
				synctest.Wait()
				app, text := r.NewApp("a", "!a:hs"), report(6000)
				id := r.Post(app.Token, text)
				next := r.Post(app.Token, "next")
				if tt.crash {
					time.Sleep(100 * time.Millisecond)
					r.Recover()
				}
				if m, err := r.Wait(ctx, r.Admin, next, time.Hour); err != nil || m.State != post.StateSent {
					t.Fatalf("%+v, %v", m, err)
				}
				wantReport(r, text, "next")
				if m := r.Stored(id); m.State != post.StateSent || m.Error != "" || !m.Cut {
					t.Errorf("it is %s, %q, cut %t", m.State, m.Error, m.Cut)
				}
				r.Withdraw(id)
				r.Drained()
				if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
					t.Errorf("after it was withdrawn the room has %d events", len(got))
				}
			})
		})
	}
}

// The event is found in the room that was replaced, and the file follows in the new one.
func TestLongMessage_KilledBeforeAnUpgrade_AllArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
			if n > 1 {
				return nil
			}
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
		}
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!old:hs").Token, report(6000))
		time.Sleep(100 * time.Millisecond)
		r.Crash()
		r.Exec(`UPDATE outbox SET wire = NULL, cut = false, attempts = 0, state = 'queued', next_at = 0, first_attempt_at = 0, device = ''`) // of the attempt nothing was stored
		r.HS.Script = nil
		r.Open()
		r.Delivery().Handle(matrix.Replaced{Old: "!old:hs", New: "!new:hs"})
		r.Start()
		r.Await(id, post.StateSent)
		r.Drained()
		if old, now := r.HS.Bodies("!old:hs"), r.HS.Bodies("!new:hs"); len(old) != 1 || !slices.Equal(now, []string{"message.md"}) {
			t.Errorf("%d events in the old room, %.40q in the new one", len(old), now)
		}
	})
}

// A file whose answer was lost is removed with its message.
func TestLongMessage_WithdrawnInDoubt_AllIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
			if isFile(out) && n == 1 {
				return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
			}
			return nil
		}
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, report(6000))
		time.Sleep(100 * time.Millisecond)
		if n := len(r.HS.Bodies("!a:hs")); n != 2 {
			t.Fatalf("%d events are in the room", n)
		}
		r.Withdraw(id)
		next := r.Post(app.Token, "next")
		r.Await(next, post.StateSent)
		r.Drained()
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"next"}) {
			t.Errorf("%d events are in the room", len(got))
		}
		if m := r.Stored(id); m.State != post.StateRedacted || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
	})
}

// A long edit, which no file follows, keeps its text rather than its formatting, and names where the rest is.
func TestLongEdit(t *testing.T) {
	for lines, last := range map[int]string{700: "of the report", 6000: "… The relay's page of this message has the whole text."} {
		synctest.Test(t, func(t *testing.T) {
			r := relaytest.NewRig(t)
			sent := contents(r)
			r.Start()
			app := r.NewApp("a", "!a:hs")
			id := says(t, r, app.Token, "short", post.Update)
			r.Await(id, post.StateSent)
			says(t, r, app.Token, report(lines), post.Update)
			r.Drained()
			all := sent()
			if body := all[len(all)-1].Body; len(all) != 2 || len(body) < 10_000 || !strings.HasSuffix(body, last) {
				t.Errorf("%d events; the edit of %d lines has %d bytes and ends in %q", len(all), lines, len(body), body[max(0, len(body)-60):])
			}
		})
	}
}

// A long reply is its beginning and a file, both in the thread of the message that it answers.
func TestLongReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		app, lifecycle := r.NewApp("a", "!a:hs"), post.Lifecycle("thread")
		r.Set(app.Application.ID, account.ApplicationInput{Lifecycle: &lifecycle})
		r.Start()
		r.Await(says(t, r, app.Token, "short", post.Update), post.StateSent)
		says(t, r, app.Token, report(6000), post.Update)
		r.Drained()
		r.HS.Mu.Lock()
		root, events := r.HS.Events["!a:hs"][0].ID, len(r.HS.Events["!a:hs"])
		r.HS.Mu.Unlock()
		all := sent()
		if events != 3 || len(all) != 3 || !strings.HasSuffix(all[1].Body, "… The whole text is in the file below.") || all[2].Body != "message.md" {
			t.Fatalf("%d events, %d sent", events, len(all))
		}
		for _, c := range all[1:] {
			if c.Relation.Type != "m.thread" || c.Relation.EventID != root {
				t.Errorf("%.20q: %+v, want the thread of %s", c.Body, c.Relation, root)
			}
		}
	})
}

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
					if isFile(out) {
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
		defer delivery.ReplaceRender(func(m format.Message, o format.Options) format.Event {
			if m.Body == "bad" {
				panic("parser")
			}
			return format.Render(m, o)
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
