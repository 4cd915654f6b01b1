package web

import (
	"net/url"
	"testing"
	"time"
)

// A day that is the last one counts to its end: what is selected is before the next one.
func TestMessagesFilter_ToADay_IncludesAllOfIt(t *testing.T) {
	f := messagesFilterOf(url.Values{"from": {"2026-11-22"}, "to": {"2026-11-22"}}).rules()
	if want := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC); !f.Until.Equal(want) {
		t.Errorf("until %v, want %v", f.Until, want)
	}
}
