package layout

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

func TestPushed(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.FixedZone("CET", 3600))
	long := strings.Repeat("ü", 200)
	all := []Push{{dgst, at, "robot$ci of web"}, {dgst, at, ""}, {oci.SHA512.FromBytes(nil), at, "a\nb\x00"}, {dgst, at, long}}
	content := Pushed(all)
	if want := string(dgst) + " 2026-03-01T11:30:00.123456789Z robot$ci of web\n"; !strings.HasPrefix(string(content), want) {
		t.Errorf("Pushed = %q, want %q first", content, want)
	}
	got, err := ParsePushed(content)
	if err != nil {
		t.Fatal(err)
	}
	for i, by := range []string{"robot$ci of web", "", "a?b?", long[:maxBy]} {
		if want := (Push{all[i].Digest, at.UTC(), by}); !reflect.DeepEqual(got[i], want) {
			t.Errorf("got %v, want %v", got[i], want)
		}
	}
	for range MaxPushes {
		all = append(all, Push{oci.SHA512.FromBytes(nil), at, long})
	}
	content = Pushed(all)
	if got, err := ParsePushed(content); len(content) > MaxPushed || len(got) != MaxPushes || err != nil {
		t.Errorf("a record has %d bytes and %d pushes, %v", len(content), len(got), err)
	}
	for bad, valid := range map[string]int{
		"": 0, string(dgst): 0, "x 2026-03-01T11:30:00Z": 0, string(dgst) + " yesterday": 0, string(dgst) + "\n2026-03-01T11:30:00Z": 0,
		string(dgst) + " 2026-03-01T11:30:00Z\ngarbage": 1,
	} {
		if got, err := ParsePushed([]byte(bad)); !errors.Is(err, ErrBadPushed) || len(got) != valid {
			t.Errorf("ParsePushed(%q) = %v, %v", bad, got, err)
		}
	}
	old := []byte(string(dgst) + " 2026-03-01T11:30:00Z")
	if got, err := ParsePushed(old); len(got) != 1 || got[0].Digest != dgst || got[0].By != "" || err != nil {
		t.Errorf("ParsePushed(%q) = %v, %v", old, got, err)
	}
}
