package protocol

import (
	"encoding/json"

	"slipway/relay/internal/format"
)

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
