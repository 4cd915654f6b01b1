package protocol

import (
	"encoding/json"
	"net/http"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/request"
)

// Gotify is POST /message as clients of Gotify and PushBits send it, which look the same: the token in a header or the
// URL, priorities from 0 to 10. Text is plain where the token is in X-Gotify-Key or in ?token=, and Markdown where it is
// in Authorization.
func Gotify() Protocol {
	return Protocol{
		Name:   "gotify",
		Routes: []Route{{Method: http.MethodPost, Path: "/message", Match: func(r *http.Request) bool { return tokensOf(r).found != "" }}},
		Token:  Token,
		Files:  true,
		Parse:  parseMessage,
		Reply:  replyMessage,
		Fail:   request.WriteError,
	}
}

// parseMessage reads a message in the shape that the native API and Gotify have in common. Where its token is decides its
// scale and format unless the application or the message names them.
func parseMessage(r *Request, app App) (Batch, error) {
	s, err := submissionOf(r)
	if err != nil {
		return Batch{}, err
	}
	if s.found != "" && (s.mixed || s.found != r.Token) {
		return Batch{}, errTwoTokens
	}
	t, priority := tokensOf(r.Request), s.draft.Priority
	if !s.worded && (app.Scale == post.ScaleGotify || app.Scale != post.ScaleNative && t.found != "") {
		priority = GotifyPriority(priority)
	}
	own := ""
	if t.gotify {
		own = format.Plain
	}
	return s.batch(r, app.Format.MediaType(s.mediaType(), own), priority)
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

// gotifyScale returns what is stored of a priority on Gotify's scale.
func gotifyScale(p *int) int {
	if p == nil {
		return 0
	}
	return min(max(*p, 0), 10) + 1
}

// notificationLinks returns the address that a notification opens and that of its picture, as Gotify's extras have them.
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
