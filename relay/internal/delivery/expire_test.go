package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// A message that is in its room and waits for its file becomes final, though the room
// is encrypted meanwhile and gets nothing any more.
func TestFileThatNeverFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.MaxAge = time.Hour })
		r.Start()
		synctest.Wait()
		r.HS.Script = func(_ matrix.Outgoing, _ int) *relaytest.Answer {
			r.Delivery().Handle(matrix.Encrypted{Room: "!a:hs"}) // as soon as the event is there
			return nil
		}
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, strings.Repeat("long ", 40_000))
		time.Sleep(2 * time.Hour)
		m := r.Stored(id)
		if m.State != post.StateSent || m.Error == "" || r.Status(ctx).Waiting != 0 {
			t.Errorf("%s, %q; %d wait", m.State, m.Error, r.Status(ctx).Waiting)
		}
	})
}

// The reason of a message shows that its removal from the room did not succeed in time.
func TestRemovalThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.MaxAge = time.Hour })
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, "x")
		r.Await(id, post.StateSent)
		r.HS.Do(func() {
			r.HS.Unredact = &matrix.SendError{Class: matrix.ClassRetry, Reason: "the connection to the homeserver broke"}
		})
		r.Withdraw(id)
		time.Sleep(2 * time.Hour)
		m := r.Stored(id)
		if m.State != post.StateSent || m.Error == "" || r.Status(ctx).Waiting != 0 {
			t.Errorf("%s, %q; %d wait", m.State, m.Error, r.Status(ctx).Waiting)
		}
		if a, _ := r.Application(ctx, r.Admin, app.Application.ID); a.Dead != 0 {
			t.Errorf("%d messages are told as given up", a.Dead)
		}
	})
}

// A message given up behind one that failed for good has a reason, too.
func TestGivenUpSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.MaxAge = time.Hour })
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Status: 500, Reason: "the homeserver failed"}}
		}
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		var ids []int64
		for range 50 {
			ids = append(ids, r.Post(app.Token, "x"))
		}
		time.Sleep(2 * time.Hour)
		for _, id := range ids {
			if m := r.Stored(id); m.State != post.StateDead || !strings.Contains(m.Error, "the homeserver failed") {
				t.Fatalf("message %d is %s: %q", id, m.State, m.Error)
			}
		}
	})
}

// A room whose entries cannot be given up holds up no other room.
func TestExpire_ARoomFails_OthersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		r := relaytest.NewRig(t)
		failing, fine := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		stuck, old := r.Post(failing.Token, "x"), r.Post(fine.Token, "y")
		r.Exec(fmt.Sprintf(`CREATE TRIGGER broken BEFORE UPDATE ON outbox WHEN NEW.id = %d BEGIN SELECT RAISE(ABORT, 'broken'); END`, stuck))
		time.Sleep(73 * time.Hour)
		if err := r.Delivery().Expire(ctx); err == nil {
			t.Error("no error")
		}
		if m := r.Stored(old); m.State != post.StateDead {
			t.Errorf("the other room: %s", m.State)
		}
	})
}
