package service_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// Another relay has taken the lease, as it does when this one was frozen for a while: this one sends nothing more, names the
// holder, and continues when the other one is gone.
func TestLease_TakenByAnother_NothingIsSentUntilItIsFree(t *testing.T) {
	relaytest.PostgresOnly(t)
	r := relaytest.NewSharedRig(t)
	r.Start()
	app := r.NewApp("a", "!a:hs")
	r.Await(r.Post(app.Token, "before"), post.StateSent)
	if st := r.Status(ctx); st.Deliverer != "this relay" || st.Elsewhere {
		t.Errorf("status while it delivers: %+v", st)
	}
	r.Exec(`UPDATE lease SET epoch = epoch + 1, holder = 'another', status = '{"paused":"The other one waits."}', expires_at = now() + interval '1 hour'`)
	r.Eventually("it knows", func() bool { return r.Status(ctx).Deliverer == "another" })
	if st := r.Status(ctx); !st.Elsewhere || st.Paused != "The other one waits." {
		t.Errorf("status while another one delivers: %+v", st)
	}
	id := r.Post(app.Token, "meanwhile")
	if m := r.Stored(id); m.State != post.StateQueued || m.Error != "The other one waits." {
		t.Errorf("the message is %s, %q", m.State, m.Error)
	}
	time.Sleep(300 * time.Millisecond) // enough to be sent, were there anybody who does
	if got := strings.Join(r.HS.Bodies("!a:hs"), " "); got != "before" {
		t.Errorf("in the room: %s", got)
	}
	r.Exec(`UPDATE lease SET expires_at = '-infinity'`)
	r.Await(id, post.StateSent)
	if got := strings.Join(r.HS.Bodies("!a:hs"), " "); got != "before meanwhile" {
		t.Errorf("in the room: %s", got)
	}
}

// A relay that cannot begin to deliver gives the lease back, and may not send any more.
func TestLease_BeginningFails_IsGivenBack(t *testing.T) {
	relaytest.PostgresOnly(t)
	r := relaytest.NewSharedRig(t)
	if !r.TakeLease(ctx) {
		t.Fatal("no lease")
	}
	r.Exec(`ALTER TABLE rooms RENAME TO gone`)
	r.Term(ctx)
	r.Exec(`ALTER TABLE gone RENAME TO rooms`)
	if r.MaySend() || r.Options.Store.Held() {
		t.Error("it may still send")
	}
	if seen, err := r.Options.Store.ReadLease(ctx); err != nil || seen.Held {
		t.Errorf("the lease: %+v, %v", seen, err)
	}
	r.Start()
	app := r.NewApp("a", "!a:hs")
	r.Await(r.Post(app.Token, "then"), post.StateSent)
}

// Another relay has made a token: it is valid at once, a wrong one is not.
func TestToken_MadeByAnother_IsKnownAtOnce(t *testing.T) {
	relaytest.PostgresOnly(t)
	r := relaytest.NewSharedRig(t)
	r.Start()
	app := r.NewApp("a", "!a:hs")
	for i := range 20 {
		token := fmt.Sprintf("made-by-another-relay-%d", i)
		r.Exec(fmt.Sprintf(`UPDATE applications SET token_hash = '\x%x' WHERE id = %d`, sha256.Sum256([]byte(token)), app.Application.ID))
		r.Post(token, "hello")
		if _, err := r.Accept(ctx, post.Draft{Token: token + "x", Content: post.Content{Body: "hello"}, Source: "test"}); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Fatalf("a wrong token: %v", err)
		}
	}
}

// A token that one relay revokes is good for nothing there, and within a second at another, though that has just used it.
func TestToken_RevokedByAnother_EndsWithinASecond(t *testing.T) {
	relaytest.PostgresOnly(t)
	r := relaytest.NewSharedRig(t)
	r.Start()
	s := another(t, r)
	app := r.NewApp("a", "!a:hs")
	send := func(at *service.Service) error {
		_, err := at.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "hello"}, Source: "test"})
		return err
	}
	if err := errors.Join(send(r.Service), send(s)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RegenerateToken(ctx, r.Admin, app.Application.ID, 0); err != nil {
		t.Fatal(err)
	}
	if err := send(r.Service); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("where it was revoked: %v", err)
	}
	time.Sleep(time.Second)
	if err := send(s); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("at the other relay a second later: %v", err)
	}
}
