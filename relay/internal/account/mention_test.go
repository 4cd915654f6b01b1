package account

import (
	"testing"
	"time"

	"slipway/relay/internal/store"
)

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
	if (Application{Settings: store.Settings{Mention: "auto"}, OwnerAbsent: true}).Unheard() {
		t.Error("before the first look")
	}
}
