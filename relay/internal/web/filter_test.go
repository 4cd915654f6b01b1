package web

import (
	"net/url"
	"testing"
	"time"
)

// The last day of a range counts to its end: the filter selects messages before the next day.
func TestMessagesFilter_ToADay_IncludesAllOfIt(t *testing.T) {
	f := messagesFilterOf(url.Values{"from": {"2026-11-22"}, "to": {"2026-11-22"}}).rules()
	if want := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC); !f.Until.Equal(want) {
		t.Errorf("until %v, want %v", f.Until, want)
	}
}
