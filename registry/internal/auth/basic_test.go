package auth

import (
	"net/http"
	"testing"
)

func FuzzParseBasic(f *testing.F) {
	f.Add("Basic YWxpY2U6c2VjcmV0")
	f.Add("basic  Og==")
	f.Fuzz(func(t *testing.T, header string) {
		var room [16]byte
		got, ok := parseBasic(header, room[:])
		user, password, want := (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth()
		if want && len(header) < maxCredentials && (!ok || string(got.user) != user || string(got.password) != password) {
			t.Errorf("%q: got %q %q %v, net/http says %q %q", header, got.user, got.password, ok, user, password)
		}
	})
}
