package intake

import (
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

func TestPriorityScale(t *testing.T) {
	for _, tt := range []struct {
		scale           account.Scale
		native, twoWays bool // the request means the native scale; its protocol has another one
		given, want     int
		refused         bool
	}{
		{account.ScaleAuto, true, true, 2, 2, false},
		{account.ScaleAuto, false, true, 2, -1, false},
		{account.ScaleAuto, false, true, 8, -1, false},
		{account.ScaleNative, false, true, 2, 2, false},
		{account.ScaleNative, true, true, -2, -2, false},
		{account.ScaleNative, false, true, 8, 0, true},
		{account.ScaleGotify, true, true, 8, -1, false},
		{account.ScaleGotify, true, false, 1, 1, false}, // a page of ours
		{account.ScaleAuto, false, false, 2, 2, false},
		{account.ScaleAuto, true, true, 3, 0, true},
	} {
		app := &store.Application{PriorityScale: string(tt.scale), DefaultPriority: 2}
		r := Request{Priority: &tt.given, NativeScale: tt.native}
		if tt.twoWays {
			low := -1
			r.Translated = &low
		}
		got, err := effectivePriority(app, r)
		if got != tt.want || refusal.KindOf(err) == refusal.KindInvalid != tt.refused {
			t.Errorf("%+v: %d, %v", tt, got, err)
		}
		if got, err := effectivePriority(app, Request{NativeScale: tt.native}); got != 2 || err != nil {
			t.Errorf("%s: the default became %d (%v)", tt.scale, got, err)
		}
	}
}
