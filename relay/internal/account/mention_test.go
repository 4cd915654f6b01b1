package account

import (
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/refusal"
)

func TestCheckMention(t *testing.T) {
	for in, want := range map[string]string{
		"": "auto", " room ": "room", "owner": "owner", "none": "none", "@a:hs": "@a:hs", "@a:hs, @b:hs\n@c:hs": "@a:hs @b:hs @c:hs",
		"everybody": "?", "@a": "?", "@a:hs,none": "?", strings.Repeat("@a:hs ", 21): "?",
	} {
		got, err := checkMention(in)
		if want == "?" && refusal.KindOf(err) != refusal.KindInvalid || want != "?" && (got != want || err != nil) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestUnheard(t *testing.T) {
	looked := Application{RoomCheckedAt: time.Now(), OwnerMatrixID: "@o:hs"}
	for _, tt := range []struct {
		mention          string
		notifies, absent bool
		want             bool
	}{
		{"auto", true, true, false},
		{"auto", false, false, false},
		{"auto", false, true, true},
		{"room", false, true, true},
		{"owner", true, true, true},
		{"owner", false, false, false},
		{"none", false, true, false},
		{"@a:hs", false, true, false},
	} {
		a := looked
		a.Mention, a.RoomNotifies, a.OwnerAbsent = tt.mention, tt.notifies, tt.absent
		if got := a.Unheard(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if (Application{Mention: "auto", OwnerAbsent: true}).Unheard() {
		t.Error("before the first look")
	}
}
