package api

import "testing"

// A refused request has an ID, under which the log has its line.
func TestRefusals_NameTheRequest(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/message/9", "/nowhere"} {
		if r := w.ask("GET", path, ""); r.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d without an ID", path, r.status)
		}
	}
}
