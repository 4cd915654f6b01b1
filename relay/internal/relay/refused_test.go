package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the homeserver does not let the bot do with a message that is in its room, or
// fails at again and again, does not hold up those behind it.
func TestRefusedBehindTheMessage(t *testing.T) {
	refused := &SendError{Class: ClassBlock, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot may not do this"}
	broken := &SendError{Class: ClassRetry, Status: 500, Code: "M_UNKNOWN", Reason: "the homeserver failed"}
	hangs := &SendError{Class: ClassRetry, Reason: "the homeserver did not answer in time"}
	remove := func(r *rig, id int64) error { _, err := r.Cancel(ctx, r.admin, id); return err }
	long := strings.Repeat("long ", 40_000)
	for name, tt := range map[string]struct {
		text   string
		err    *SendError
		then   func(*rig, int64) error
		within time.Duration // 0: it is waited for
	}{
		"removal refused": {"x", refused, remove, time.Minute},
		"file refused":    {long, refused, nil, time.Minute},
		"removal fails":   {"x", broken, remove, time.Hour},
		"file fails":      {long, broken, nil, time.Hour},
		"no answer":       {long, hangs, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.unupload, r.hs.unredact = tt.err, tt.err
				r.run()
				synctest.Wait()
				app := r.app("a", "!a:hs")
				first := r.send(app.Token, tt.text)
				time.Sleep(time.Second)
				if tt.then != nil {
					if err := tt.then(r, first); err != nil {
						t.Fatal(err)
					}
				}
				next, err := r.Wait(ctx, r.admin, r.send(app.Token, "next"), max(tt.within, time.Hour))
				if tt.within == 0 {
					if err != nil || next.State != StateQueued {
						t.Errorf("the next one is %s, %v", next.State, err)
					}
					return
				}
				if err != nil || next.State != StateSent || r.Status(ctx).Blocked != 0 || next.SentAt.Sub(next.AcceptedAt) > tt.within {
					t.Errorf("the next one is %s after %v, %q; %d rooms are blocked", next.State, next.SentAt.Sub(next.AcceptedAt), next.Error, r.Status(ctx).Blocked)
				}
				if m := r.message(first); m.State != StateSent || !strings.Contains(m.Error, tt.err.Reason) {
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
		r := newRig(t)
		r.hs.unupload = &SendError{Class: ClassRetry, Status: 500, Code: "M_UNKNOWN", Reason: "the homeserver failed"}
		r.hs.unredact = r.hs.unupload
		r.run()
		synctest.Wait()
		id := r.send(r.app("a", "!a:hs").Token, strings.Repeat("long ", 40_000))
		time.Sleep(time.Second)
		if m := r.message(id); m.State != StateSent || r.waiting() != 1 {
			t.Fatalf("it is %s, %q; %d wait", m.State, m.Error, r.waiting())
		}
		if m, err := r.Cancel(ctx, r.admin, id); err != nil || m.State != StateSent || m.Error != "" || m.ErrorCode != "" {
			t.Errorf("it is %s, %q %q, %v", m.State, m.Error, m.ErrorCode, err)
		}
		if n := r.waiting(); n != 2 { // its removal, and that of its file should it be there
			t.Errorf("%d wait", n)
		}
	})
}
