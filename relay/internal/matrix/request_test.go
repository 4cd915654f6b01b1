package matrix

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRequest_Path: an id may hold any character (event ids of room version 3 have slashes) and is one part of the path, also
// where the homeserver's URL has a path.
func TestRequest_Path(t *testing.T) {
	const want = "/_matrix/client/v3/rooms/%21a%2Fb%25c%3Fd%23e%20%C3%A4:hs/redact/$x%2Fy+z/.."
	var got string
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer hs.Close()
	for base, prefix := range map[string]string{"": "", "/": "", "/matrix": "/matrix", "/a/b/": "/a/b", "/a%2Fb": "/a%2Fb"} {
		c, err := New(Options{Homeserver: hs.URL + base, AccessToken: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		r := request{method: http.MethodPut, path: v3("rooms", "!a/b%c?d#e ä:hs", "redact", "$x/y+z", "..")}
		if err := c.do(t.Context(), c.api("", ""), r, nil); err != nil {
			t.Fatal(err)
		}
		if got != prefix+want {
			t.Errorf("%s: %s, want %s", base, got, prefix+want)
		}
	}
}
