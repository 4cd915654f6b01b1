package webhook

import "testing"

func TestHealthchecks(t *testing.T) {
	d, text := read(t, Healthchecks(), `{"name":"backup","status":"down","code":"c","now":"n","tags":"prod"}`)
	if d.Title != "backup is down" || *d.Priority != 1 || d.IdempotencyKey == "" || text == "" {
		t.Errorf("%+v %q", d, text)
	}
	if d, _ := read(t, Healthchecks(), `{"name":"backup","status":"down","code":"c","tags":["prod"]}`); d.Title != "backup is down" || d.Key != "check:c" {
		t.Errorf("tags of another type: %+v", d)
	}
	if d, _ := read(t, Healthchecks(), "backup is up"); d.Body != "backup is up" {
		t.Errorf("%+v", d)
	}
}
