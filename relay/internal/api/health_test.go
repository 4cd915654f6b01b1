package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/relay/internal/service"
)

// When nothing is accepted because too much waits, health says so.
func TestHealth_OutboxIsFull(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Limits.MaxWaiting = 1 })
	w.want("with room", w.ask("GET", "/health", ""), 200, "health", "green")
	w.send(w.app(named("a")).Token, "x")
	w.want("full", w.ask("GET", "/health", ""), 503, "health", "red", "database", "green", "reason", "Nothing is accepted: too many messages wait for delivery.")
}

func TestUnready(t *testing.T) {
	srv := httptest.NewServer(Unready("The disk is full."))
	defer srv.Close()
	w := &world{T: t, base: srv.URL, transport: http.DefaultTransport}
	w.want("health", w.ask("GET", "/health", ""), 503, "health", "red", "database", "red", "reason", "The disk is full.")
	w.want("alive", w.ask("GET", "/livez", ""), 200)
	for _, path := range []string{"/readyz", "/message", "/", "/healthz"} {
		if r := w.ask("POST", path, "{}"); r.status != 503 || r.header.Get("Retry-After") == "" || r.fields["errorDescription"] != "The disk is full." {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
