package protocol

import (
	"net/http"
	"strconv"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Native is the relay's own API: POST /message with the token in the body. Priorities are −2 to 2, and messages are
// Markdown. PUT /message/{id} replaces a message; with its token elsewhere it is read as [Gotify] reads POST /message.
func Native() Protocol {
	return Protocol{
		Name:      "api",
		Routes:    []Route{{Method: http.MethodPost, Path: "/message"}, {Method: http.MethodPut, Path: "/message/{id:[0-9]+}"}},
		BodyToken: true,
		Token: func(r *Request) (string, error) {
			if r.Body == nil {
				return Token(r)
			}
			s, err := submissionOf(r)
			if err != nil {
				return "", err
			}
			return s.one()
		},
		Files: true,
		Parse: func(r *Request, app App) (Batch, error) {
			b, err := parseMessage(r, app)
			if text := r.Path["id"]; text != "" && err == nil {
				d := &b.Drafts[0]
				d.Key, d.Thread, d.Change = "", "", post.Create
				if d.Edits, err = strconv.ParseInt(text, 10, 64); err != nil || d.Edits == 0 {
					err = refusal.NotFound("message")
				}
			}
			return b, err
		},
		Reply: replyMessage,
		Fail:  request.WriteError,
	}
}
