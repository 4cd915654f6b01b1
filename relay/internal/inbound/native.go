package inbound

import (
	"net/http"

	"slipway/relay/internal/account"
	"slipway/relay/internal/httprequest"
)

// Native is the relay's own API: POST /message with the token in the body. Priorities are −2 to 2, and messages are
// Markdown.
func Native() Protocol {
	return Protocol{
		Name:      "api",
		Routes:    []Route{{Method: http.MethodPost, Path: "/message"}},
		BodyToken: true,
		Token: func(r *Request) (string, error) {
			if r.Body == nil {
				return Token(r.Request)
			}
			s, err := submissionOf(r)
			if err != nil {
				return "", err
			}
			return s.one()
		},
		Parse: func(r *Request, app App) (Batch, error) {
			s, err := submissionOf(r)
			if err != nil {
				return Batch{}, err
			}
			priority := s.draft.Priority
			if app.Scale == account.ScaleGotify {
				priority = GotifyPriority(priority)
			}
			return s.batch(r, app.Format.MediaType(s.mediaType(), ""), priority)
		},
		Reply: replyMessage,
		Fail:  httprequest.WriteError,
	}
}
