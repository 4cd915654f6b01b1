package account_test

import (
	"bytes"
	"strings"
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
)

const webhookSecret = "It's a Secret to Everybody"

func secretOf(t *testing.T, s *service.Service, id int64) string {
	t.Helper()
	app, err := s.AppFor(ctx, account.Principal{UserID: 1, Admin: true}, id)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.Secret(app)
	if err != nil {
		t.Fatal(err)
	}
	return string(secret)
}

func TestSecret(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Accounts.SecretKey = []byte("a pickle key of the tests") })
	issued, err := r.CreateApplication(ctx, r.Admin, account.ApplicationInput{Name: p("hook"), Room: p("!a:hs"), Secret: p(" " + webhookSecret + "\n")})
	if err != nil || !issued.Application.HasSecret {
		t.Fatalf("%+v, %v", issued.Application, err)
	}
	id := issued.Application.ID
	if got := secretOf(t, r.Service, id); got != webhookSecret {
		t.Errorf("the secret is %q", got)
	}
	var rows []store.Application
	if rows, err = r.Options.Store.Applications(ctx, 0, 0); err != nil || bytes.Contains(rows[0].Secret, []byte("Everybody")) {
		t.Errorf("stored as %q (%v)", rows[0].Secret, err)
	}
	a, err := r.UpdateApplication(ctx, r.Admin, id, account.ApplicationInput{Description: p("nightly")})
	if err != nil || !a.HasSecret {
		t.Errorf("another setting: has a secret %v, %v", a.HasSecret, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 257), "with a control\x00character", strings.Repeat("changeme", 4)} {
		if _, err := r.UpdateApplication(ctx, r.Admin, id, account.ApplicationInput{Secret: &bad}); refused(err).Field != "hook_secret" {
			t.Errorf("%.20q: %v", bad, err)
		}
	}

	r.Shutdown()
	r.Open()
	if got := secretOf(t, r.Service, id); got != webhookSecret {
		t.Errorf("after a restart the secret is %q", got)
	}
	if a, err = r.UpdateApplication(ctx, r.Admin, id, account.ApplicationInput{Secret: p("")}); err != nil || a.HasSecret || secretOf(t, r.Service, id) != "" {
		t.Errorf("removed: %v, %v", a.HasSecret, err)
	}
}

// TestSecret_AnotherKey: a secret that cannot be decrypted never counts as none.
func TestSecret_AnotherKey(t *testing.T) {
	key := []byte("a pickle key of the tests")
	r := relaytest.NewRig(t, func(o *service.Options) { o.Accounts.SecretKey = key })
	issued, err := r.CreateApplication(ctx, r.Admin, account.ApplicationInput{Name: p("hook"), Room: p("!a:hs"), Secret: p(webhookSecret)})
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range [][]byte{nil, []byte("another key")} {
		r.Shutdown()
		r.Options.Accounts.SecretKey = other
		r.Open()
		app, err := r.ByToken(ctx, issued.Token)
		if err != nil {
			t.Fatal(err)
		}
		if secret, err := r.Secret(app); refusal.KindOf(err) != refusal.KindUnavailable || secret != nil {
			t.Errorf("with the key %q: %q, %v", other, secret, err)
		}
		_, err = r.UpdateApplication(ctx, r.Admin, issued.Application.ID, account.ApplicationInput{Secret: p(webhookSecret)})
		if got := refused(err); (other == nil) != (got.Field == "hook_secret") {
			t.Errorf("set with the key %q: %v", other, err)
		}
	}
}
