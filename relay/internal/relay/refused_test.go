package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the homeserver does not let the bot do with a message that is in its room holds
// up none of those behind it.
func TestRefusedBehindTheMessage(t *testing.T) {
	refused := &SendError{Class: ClassPark, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot may not do this"}
	for name, tt := range map[string]struct {
		text  string
		begin func(*rig, int64) error
	}{
		"removal": {"x", func(r *rig, id int64) error {
			r.hs.unredact = refused
			_, err := r.Cancel(ctx, r.admin, id)
			return err
		}},
		"file": {strings.Repeat("long ", 40_000), func(*rig, int64) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.unupload = refused
				r.run()
				synctest.Wait()
				app := r.app("a", "!a:hs")
				first := r.send(app.Token, tt.text)
				time.Sleep(time.Second)
				if err := tt.begin(r, first); err != nil {
					t.Fatal(err)
				}
				next, err := r.Wait(ctx, r.admin, r.send(app.Token, "next"), time.Minute)
				if err != nil || next.State != StateSent || r.Status(ctx).Parked != 0 {
					t.Errorf("the next one is %s, %q; %d rooms are parked", next.State, next.Error, r.Status(ctx).Parked)
				}
				if m := r.message(first); m.State != StateSent || !strings.Contains(m.Error, refused.Reason) {
					t.Errorf("the first one is %s and says %q", m.State, m.Error)
				}
			})
		})
	}
}
