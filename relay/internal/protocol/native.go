package protocol

import (
	"encoding/json"
	"net/http"
	"strconv"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Native is the relay's own API, and the API of Gotify and PushBits, whose requests look the same: POST /message, and PUT /message/{id},
// which replaces a message. With the token in the body priorities are −2 to 2, else 0 to 10, unless the application says so. Text is plain where
// the token is in X-Gotify-Key or in ?token=, else Markdown.
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
		Parse: parseMessage,
		Reply: replyMessage,
		Fail:  request.WriteError,

		Application: applicationOf,
	}
}

// applicationOf returns the appid of a new message, in the query or, once it is read, in the body.
func applicationOf(r *Request) int64 {
	if r.Path["id"] != "" {
		return 0
	}
	if id, err := strconv.ParseInt(r.URL.Query().Get("appid"), 10, 64); err == nil && id > 0 {
		return id
	}
	if r.Body == nil {
		return 0
	}
	s, err := submissionOf(r)
	if err != nil {
		return 0 // Parse reports it to those who may send
	}
	return s.application
}

// gotifySource is the source of messages whose token is where Gotify's clients send it.
const gotifySource = "gotify"

// parseMessage reads a message. The place of the token selects its priority scale and format, unless the application or the message does.
func parseMessage(r *Request, app App) (Parsed, error) {
	s, err := submissionOf(r)
	if err != nil {
		return Parsed{}, err
	}
	if s.found != "" && (s.mixed || s.found != r.Token) {
		return Parsed{}, errTwoTokens
	}
	t, priority := tokensOf(r.Request), s.draft.Priority
	if !s.worded && (app.Scale == post.ScaleGotify || app.Scale != post.ScaleNative && t.found != "") {
		priority = GotifyPriority(priority)
	}
	own := ""
	if t.gotify {
		own = format.Plain
	}
	b, err := s.parsed(r, app.Format.MediaType(s.mediaType(), own), priority)
	if err != nil {
		return b, err
	}
	d := &b.Drafts[0]
	if text := r.Path["id"]; text != "" {
		d.Key, d.Thread, d.Change = "", "", post.Create
		if d.Edits, err = strconv.ParseInt(text, 10, 64); err != nil || d.Edits == 0 {
			err = refusal.NotFound("message")
		}
	} else if t.found != "" {
		d.Source = gotifySource
	}
	return b, err
}

// GotifyPriority translates a priority of Gotify, whose clients show 1 to 3 as low, 4 to 7 as normal, 8 and 9 as high and
// more as the highest, to −2 … 2. nil stays nil.
func GotifyPriority(given *int) *int {
	if given == nil {
		return nil
	}
	p := 2
	switch g := *given; {
	case g == 0:
		p = 0
	case g <= 3:
		p = -1
	case g <= 7:
		p = 0
	case g <= 9:
		p = 1
	}
	return &p
}

// gotifyScale returns the stored form of a priority on Gotify's scale.
func gotifyScale(p *int) int {
	if p == nil {
		return 0
	}
	return min(max(*p, 0), 10) + 1
}

// notificationLinks returns the URL that a notification opens and the URL of its picture, from Gotify's extras.
func notificationLinks(extras string) (addresses []string) {
	var in struct {
		Notification struct {
			Click struct {
				URL string `json:"url"`
			} `json:"click"`
			Picture string `json:"bigImageUrl"`
		} `json:"client::notification"`
	}
	if len(extras) == 0 || json.Unmarshal([]byte(extras), &in) != nil {
		return nil
	}
	for _, address := range []string{in.Notification.Click.URL, in.Notification.Picture} {
		if format.IsWeb(address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
