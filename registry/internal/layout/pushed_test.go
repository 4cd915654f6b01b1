package layout

import (
	"errors"
	"testing"
	"time"
)

func TestPushed(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.FixedZone("CET", 3600))
	content := Pushed(dgst, at)
	if want := string(dgst) + " 2026-03-01T11:30:00.123456789Z"; string(content) != want {
		t.Errorf("Pushed = %q, want %q", content, want)
	}
	if len(content) > MaxPushed {
		t.Errorf("the record has %d bytes", len(content))
	}
	d, got, err := ParsePushed(content)
	if d != dgst || !got.Equal(at) || err != nil {
		t.Errorf("ParsePushed = %s, %v, %v", d, got, err)
	}
	for _, bad := range []string{"", string(dgst), "x 2026-03-01T11:30:00Z", string(dgst) + " yesterday", string(dgst) + "\n2026-03-01T11:30:00Z"} {
		if _, _, err := ParsePushed([]byte(bad)); !errors.Is(err, ErrBadPushed) {
			t.Errorf("ParsePushed(%q) = %v", bad, err)
		}
	}
}
