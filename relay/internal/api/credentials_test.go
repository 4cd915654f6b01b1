package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/relay/internal/refusal"
)

// A database that doesn't answer is asked once for a credential, not again as for a password.
func TestMayBePassword(t *testing.T) {
	basic, bearer := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRequest(http.MethodGet, "/", nil)
	basic.SetBasicAuth("a", "p")
	wrong, away := &refusal.Error{Kind: refusal.KindUnauthorized}, &refusal.Error{Kind: refusal.KindUnavailable}
	for _, tt := range []struct {
		name string
		r    *http.Request
		err  error
		want bool
	}{
		{"no such token, in Basic", basic, wrong, true},
		{"no database, in Basic", basic, away, false},
		{"a token", basic, nil, false},
		{"no such token, as a bearer", bearer, wrong, false},
	} {
		if got := mayBePassword(tt.r, tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
