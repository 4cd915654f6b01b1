package matrix

import (
	"net/http"
	"testing"
)

// Ids may hold any character (event ids of rooms of version 3 have slashes), also behind a homeserver's URL with a path.
func TestRequest_IDWithAnyCharacter_IsOnePartOfThePath(t *testing.T) {
	const want = "/_matrix/client/v3/rooms/%21a%2Fb%25c%3Fd%23e%20%C3%A4:hs/redact/$x%2Fy+z/.."
	for base, prefix := range map[string]string{
		"https://hs": "", "https://hs/": "", "https://hs/matrix": "/matrix", "https://hs/a/b/": "/a/b", "https://hs/a%2Fb": "/a%2Fb",
	} {
		c, err := New(Options{Homeserver: base, AccessToken: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		req, err := c.newRequest(t.Context(), "", request{method: http.MethodPut, path: v3("rooms", "!a/b%c?d#e ä:hs", "redact", "$x/y+z", "..")})
		if err != nil {
			t.Fatal(err)
		}
		if got := req.URL.RequestURI(); got != prefix+want {
			t.Errorf("%s: %s, want %s", base, got, prefix+want)
		}
	}
}
