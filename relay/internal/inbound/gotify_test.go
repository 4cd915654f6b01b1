package inbound

import "testing"

func TestGotifyPriority(t *testing.T) {
	for in, want := range map[int]int{-5: -1, 0: 0, 1: -1, 3: -1, 4: 0, 7: 0, 8: 1, 9: 1, 10: 2, 99: 2} {
		if got := GotifyPriority(&in); got == nil || *got != want {
			t.Errorf("%d became %v, want %d", in, got, want)
		}
	}
	if GotifyPriority(nil) != nil {
		t.Error("none became one")
	}
}
