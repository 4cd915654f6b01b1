package delivery_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// What the homeserver does not let the bot do with a message that is in its room, or
// fails at again and again, does not hold up those behind it.
func TestRefusedBehindTheMessage(t *testing.T) {
	refused := &matrix.SendError{Class: matrix.ClassBlock, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot may not do this"}
	noFiles := &matrix.SendError{Class: matrix.ClassDead, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot may not upload"}
	tooLarge := &matrix.SendError{Class: matrix.ClassTooLarge, Status: 413, Code: "M_TOO_LARGE", Reason: "the file is too large"}
	broken := &matrix.SendError{Class: matrix.ClassRetry, Status: 500, Code: "M_UNKNOWN", Reason: "the homeserver failed"}
	hangs := &matrix.SendError{Class: matrix.ClassRetry, Reason: "the homeserver did not answer in time"}
	remove := func(r *relaytest.Rig, id int64) error { _, err := r.Cancel(ctx, r.Admin, id); return err }
	long := strings.Repeat("long ", 40_000)
	for name, tt := range map[string]struct {
		text   string
		err    *matrix.SendError
		then   func(*relaytest.Rig, int64) error
		within time.Duration // 0: it is waited for
	}{
		"removal refused": {"x", refused, remove, time.Minute},
		"file refused":    {long, noFiles, nil, time.Minute},
		"file too large":  {long, tooLarge, nil, time.Minute},
		"removal fails":   {"x", broken, remove, time.Hour},
		"file fails":      {long, broken, nil, time.Hour},
		"no answer":       {long, hangs, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.HS.Unupload, r.HS.Unredact = tt.err, tt.err
				r.Start()
				synctest.Wait()
				app := r.NewApp("a", "!a:hs")
				first := r.Post(app.Token, tt.text)
				time.Sleep(time.Second)
				if tt.then != nil {
					if err := tt.then(r, first); err != nil {
						t.Fatal(err)
					}
				}
				next, err := r.Wait(ctx, r.Admin, r.Post(app.Token, "next"), max(tt.within, time.Hour))
				if tt.within == 0 {
					if err != nil || next.State != post.StateQueued {
						t.Errorf("the next one is %s, %v", next.State, err)
					}
					return
				}
				if err != nil || next.State != post.StateSent || r.Status(ctx).Blocked != 0 || next.SentAt().Sub(post.Time(next.AcceptedAt)) > tt.within {
					t.Errorf("the next one is %s after %v, %q; %d rooms are blocked", next.State, next.SentAt().Sub(post.Time(next.AcceptedAt)), next.Error, r.Status(ctx).Blocked)
				}
				if m := r.Stored(first); m.State != post.StateSent || !strings.Contains(m.Error, tt.err.Reason) {
					t.Errorf("the first one is %s and says %q", m.State, m.Error)
				}
			})
		})
	}
}

// A message that is withdrawn while its file fails is delivered, and nothing is wrong
// with that.
func TestWithdrawnWithoutItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Unupload = &matrix.SendError{Class: matrix.ClassRetry, Status: 500, Code: "M_UNKNOWN", Reason: "the homeserver failed"}
		r.HS.Unredact = r.HS.Unupload
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
		time.Sleep(time.Second)
		if m := r.Stored(id); m.State != post.StateSent || r.Waiting() != 1 {
			t.Fatalf("it is %s, %q; %d wait", m.State, m.Error, r.Waiting())
		}
		if m, err := r.Cancel(ctx, r.Admin, id); err != nil || m.State != post.StateSent || m.Error != "" || m.Code != "" {
			t.Errorf("it is %s, %q %q, %v", m.State, m.Error, m.Code, err)
		}
		time.Sleep(time.Second)       // until it is counted again
		if n := r.Waiting(); n != 2 { // its removal, and that of its file should it be there
			t.Errorf("%d wait", n)
		}
	})
}

// The bot may not write for a while when the event of a message is sent: its file waits as messages do.
func TestRefusedForAWhile_TheFileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
			if isFile(out) && n == 1 {
				a := relaytest.Fails(matrix.ClassBlock)
				return &a
			}
			return nil
		}
		r.Start()
		synctest.Wait()
		app, text := r.NewApp("a", "!a:hs"), report(6000)
		id := r.Post(app.Token, text)
		next := r.Post(app.Token, "next")
		if m, err := r.Wait(ctx, r.Admin, next, time.Hour); err != nil || m.State != post.StateSent {
			t.Fatalf("%+v, %v", m, err)
		}
		if m := r.Stored(id); m.State != post.StateSent || m.Error != "" {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		wantReport(r, text, "next")
	})
}
