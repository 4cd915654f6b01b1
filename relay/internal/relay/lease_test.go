package relay

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/delivery"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// sharedRig is a relay among others on one database of PostgreSQL.
func sharedRig(t *testing.T) *rig {
	t.Helper()
	hs := newHomeserver()
	r := &rig{t: t, hs: hs, path: newDatabase(t), shared: true, o: Options{Sender: hs, Rooms: hs, Log: zap.NewNop(), CheckToken: true}}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

// eventually waits until a condition holds, however busy the machine is.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.t.Fatalf("never: %s", what)
}

// Another relay has taken the lease, as it does when this one was frozen for a while: this one sends nothing more, says who
// delivers, and goes on when the other one is gone.
func testLease_TakenByAnother_NothingIsSentUntilItIsFree(t *testing.T) {
	r := sharedRig(t)
	r.run()
	app := r.app("a", "!a:hs")
	r.await(r.send(app.Token, "before"), StateSent)
	if st := r.Status(ctx); st.Deliverer != "this relay" || st.Elsewhere {
		t.Errorf("status while it delivers: %+v", st)
	}
	r.exec(`UPDATE lease SET epoch = epoch + 1, holder = 'another', status = '{"paused":"The other one waits."}', expires_at = now() + interval '1 hour'`)
	r.eventually("it knows", func() bool { return r.Status(ctx).Deliverer == "another" })
	if st := r.Status(ctx); !st.Elsewhere || st.Paused != "The other one waits." {
		t.Errorf("status while another one delivers: %+v", st)
	}
	id := r.send(app.Token, "meanwhile")
	if m := r.message(id); m.State != StateQueued || m.Error != "The other one waits." {
		t.Errorf("the message is %s, %q", m.State, m.Error)
	}
	time.Sleep(300 * time.Millisecond) // enough to be sent, were there anybody who does
	if got := strings.Join(r.hs.bodies("!a:hs"), " "); got != "before" {
		t.Errorf("in the room: %s", got)
	}
	r.exec(`UPDATE lease SET expires_at = '-infinity'`)
	r.await(id, StateSent)
	if got := strings.Join(r.hs.bodies("!a:hs"), " "); got != "before meanwhile" {
		t.Errorf("in the room: %s", got)
	}
}

// Once a lease may have expired nothing is sent, whatever else is known of it.
func TestLease_MayHaveExpired_IsNotValid(t *testing.T) {
	l := newLease(nil, zap.NewNop())
	if l.valid() {
		t.Error("valid without a lease")
	}
	l.hold(time.Now())
	if !l.valid() {
		t.Error("not valid when it was taken just now")
	}
	for name, asked := range map[string]time.Time{
		"by both clocks":              time.Now().Add(leaseSpare - leaseFor),
		"by the one that runs on":     time.Now().Add(leaseSpare - leaseFor).Round(0),
		"long after it was asked for": time.Now().Add(-time.Hour),
	} {
		l.hold(asked)
		if l.valid() {
			t.Errorf("valid though it may have expired, %s", name)
		}
	}
}

// A relay that was frozen until its lease expired names nobody as the one that delivers, and not itself, until it has looked.
func TestLease_ExpiredHere_IsNobodys(t *testing.T) {
	l := newLease(nil, zap.NewNop())
	shown := func() delivery.Status {
		var st delivery.Status
		l.show(&st)
		return st
	}
	l.seen.Store(&seenLease{store.Lease{Held: true, Holder: "this relay"}, true})
	l.hold(time.Now())
	if st := shown(); st.Deliverer != "this relay" || st.Elsewhere || l.condition().Paused != "" {
		t.Errorf("while it delivers: %+v, %+v", st, l.condition())
	}
	l.hold(time.Now().Add(-time.Hour))
	if st := shown(); st.Deliverer != "" || l.condition().Paused == "" {
		t.Errorf("after its lease has expired: %+v, %+v", st, l.condition())
	}
	l.seen.Store(&seenLease{store.Lease{Held: true, Holder: "another"}, false})
	if st := shown(); st.Deliverer != "another" || !st.Elsewhere {
		t.Errorf("when another one delivers: %+v", st)
	}
}

// A relay that cannot begin to deliver gives the lease back, and may not send any more.
func testLease_BeginningFails_IsGivenBack(t *testing.T) {
	r := sharedRig(t)
	if !r.lease.take(ctx) {
		t.Fatal("no lease")
	}
	r.exec(`ALTER TABLE rooms RENAME TO gone`)
	r.term(ctx)
	r.exec(`ALTER TABLE gone RENAME TO rooms`)
	if r.lease.valid() || r.store.Held() {
		t.Error("it may still send")
	}
	if seen, err := r.store.ReadLease(ctx); err != nil || seen.Held {
		t.Errorf("the lease: %+v, %v", seen, err)
	}
	r.run()
	app := r.app("a", "!a:hs")
	r.await(r.send(app.Token, "then"), StateSent)
}

// Another relay has made a token, and its note has not come yet: the token is good all the same, a wrong one is not.
func testToken_MadeByAnother_IsKnownAtOnce(t *testing.T) {
	r := sharedRig(t)
	r.run()
	app := r.app("a", "!a:hs")
	for i := range 20 {
		token := fmt.Sprintf("made-by-another-relay-%d", i)
		r.exec(fmt.Sprintf(`UPDATE applications SET token_hash = '\x%x' WHERE id = %d`, sha256.Sum256([]byte(token)), app.Application.ID))
		r.exec(`UPDATE revision SET n = n + 1`)
		r.send(token, "hello")
		if _, err := r.Accept(ctx, AcceptRequest{Token: token + "x", Message: "hello", Source: "test"}); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Fatalf("a wrong token: %v", err)
		}
	}
}
