package inbound

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway/relay/internal/refusal"
)

// Without a token in the headers the native protocol finds it in the body, and nowhere twice.
func TestNativeToken(t *testing.T) {
	p := Native()
	for body, want := range map[string]string{
		`{"token":"A","message":"m"}`: "A", `{"message":"m"}`: "", `{"token":null,"message":"m"}`: "", "token=A&message=m": "A", "m": "",
	} {
		r := &Request{Request: httptest.NewRequest(http.MethodPost, "/message", nil)}
		if token, err := p.Token(r); token != "" || err != nil {
			t.Errorf("before the body: %q, %v", token, err)
		}
		r.Body = []byte(body)
		if token, err := p.Token(r); token != want || err != nil {
			t.Errorf("%s: token %q, %v, want %q", body, token, err, want)
		}
	}
	r := &Request{Request: httptest.NewRequest(http.MethodPost, "/message", nil), Body: []byte("token=A&token=B&message=m")}
	if _, err := p.Token(r); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("two tokens: %v", err)
	}
}
