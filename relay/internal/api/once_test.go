package api

import (
	"strings"
	"testing"

	"slipway/relay/internal/relaytest"
)

// A client whose answer was lost asks again: the secret is the same, and nothing is made twice.
func TestOnce_SecretsAnsweredAgain(t *testing.T) {
	w := newWorld(t, nil)
	admin := basicHeader(relaytest.AdminName, relaytest.AdminPassword)
	ask := func(path, key, body string) reply {
		return w.ask("POST", path, body, admin, "Content-Type: application/json", "Idempotency-Key: "+key)
	}
	for path, body := range map[string]string{
		"/application": `{"name":"once","room_id":"!a:hs"}`, "/application/1/token": `{}`, "/client": `{"name":"phone"}`,
	} {
		if path != "/application" {
			w.app(named("of " + path))
		}
		first, again := ask(path, "k", body), ask(path, "k", body)
		if first.status/100 != 2 || again.status != first.status || first.fields["token"] == nil || again.fields["token"] != first.fields["token"] || again.header.Get("Idempotent-Replay") != "true" {
			t.Errorf("%s: %d %v, then %d %v", path, first.status, first.fields["token"], again.status, again.fields["token"])
		}
		if other := ask(path, "k", `{"name":"another"}`); other.status != 409 {
			t.Errorf("%s: another request under the key: %d", path, other.status)
		}
	}
	if r := ask("/client", strings.Repeat("k", 256), `{"name":"x"}`); r.status != 400 {
		t.Errorf("a long key: %d", r.status)
	}
}

// A refused request may be repeated with the same key.
func TestOnce_RefusalsAreNotKept(t *testing.T) {
	w := newWorld(t, nil)
	admin := basicHeader(relaytest.AdminName, relaytest.AdminPassword)
	if r := w.ask("POST", "/client", `{}`, admin, "Idempotency-Key: k"); r.status != 400 {
		t.Errorf("%d", r.status)
	}
	if r := w.ask("POST", "/client", `{"name":"phone"}`, admin, "Idempotency-Key: k"); r.status != 200 {
		t.Errorf("%d", r.status)
	}
}
