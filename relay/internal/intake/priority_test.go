package intake

import (
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/store"
)

func TestPriorityScale(t *testing.T) {
	native := map[int]int{-2: -2, -1: -1, 0: 0, 1: 1, 2: 2}
	gotify := map[int]int{-5: -1, 0: 0, 1: -1, 3: -1, 4: 0, 7: 0, 8: 1, 9: 1, 10: 2, 99: 2}
	tests := []struct {
		scale  account.Scale
		native bool
		want   map[int]int
	}{
		{account.ScaleAuto, true, native},
		{account.ScaleAuto, false, gotify},
		{account.ScaleNative, false, native},
		{account.ScaleNative, true, native},
		{account.ScaleGotify, true, gotify},
		{account.ScaleGotify, false, gotify},
	}
	for _, test := range tests {
		app := &store.Application{PriorityScale: string(test.scale), DefaultPriority: 2}
		for in, want := range test.want {
			if got, err := effectivePriority(app, Request{Priority: &in, NativeScale: test.native}); got != want || err != nil {
				t.Errorf("%s, native %v: %d became %d (%v), want %d", test.scale, test.native, in, got, err, want)
			}
		}
		if got, err := effectivePriority(app, Request{NativeScale: test.native}); got != 2 || err != nil {
			t.Errorf("%s: the default became %d (%v)", test.scale, got, err)
		}
	}
}
