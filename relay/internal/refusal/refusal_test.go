package refusal

import (
	"context"
	"errors"
	"testing"
)

// TestError_CauseRepeatsSentence: a cause that begins with the sentence replaces it.
func TestError_CauseRepeatsSentence(t *testing.T) {
	for want, err := range map[string]*Error{
		"The homeserver does not know the alias #a:hs.":      {Message: "The homeserver does not know the alias #a:hs."},
		"room_id: The homeserver does not know it: HTTP 404": {Field: "room_id", Message: "The homeserver does not know it.", Err: errors.New("The homeserver does not know it: HTTP 404")},
		"room_id: No such room: HTTP 404":                    {Field: "room_id", Message: "No such room.", Err: errors.New("HTTP 404")},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A database that cannot be read now may be read soon, whatever keeps it from that.
func TestUnreadable_AsksToComeBack(t *testing.T) {
	for _, cause := range []error{errors.New("connection refused"), context.DeadlineExceeded} {
		var e *Error
		if !errors.As(Unreadable(cause), &e) || e.Kind != KindUnavailable || e.RetryAfter <= 0 || !errors.Is(e, cause) {
			t.Errorf("%v: %+v", cause, e)
		}
	}
}
