package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Errors are the relay's own sentences, or name what is no relay.
func TestDo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string // in the error; "" for none
	}{
		{"good", 200, `{"id":7}`, ""},
		{"refused", 403, `{"errorDescription":"Not yours."}`, "Not yours. (Forbidden)"},
		{"a proxy", 502, `<html>`, "the relay answered Bad Gateway"},
		{"a page", 200, `<html>`, "does not come from a relay"},
	} {
		c := Client{Base: "http://relay.example", Token: "Atoken", Key: "k", HTTP: &http.Client{Transport: InProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer Atoken" || r.Header.Get("Idempotency-Key") != "k" {
				t.Errorf("%s: headers %v", tt.name, r.Header)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})}}}
		var out struct{ ID int }
		status, err := c.Do(t.Context(), http.MethodPost, "/message", map[string]string{"message": "m"}, &out)
		if status != tt.status || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && out.ID != 7 {
			t.Errorf("%s: %d, %v, id %d", tt.name, status, err, out.ID)
		}
	}
}

func TestDo_NoAnswer(t *testing.T) {
	c := Client{Base: "http://127.0.0.1:1", HTTP: &http.Client{}}
	if status, err := c.Do(t.Context(), http.MethodGet, "/livez", nil, nil); status != 0 || err == nil || !strings.Contains(err.Error(), "cannot reach the relay at http://127.0.0.1:1: connection refused") {
		t.Errorf("%d, %v", status, err)
	}
}
