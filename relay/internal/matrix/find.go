package matrix

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"slipway/relay/internal/format"
)

const (
	findPages = 100              // of 100 events each
	findSlack = 15 * time.Minute // allowance for the homeserver's clock
)

// Found is the result of [Client.Find].
type Found struct {
	EventID  string // "" if no such event was seen
	Complete bool   // the history was read back to since, so a missing event was not sent
}

// Find searches the room's history back to since for the bot's event with the marker.
func (c *Client) Find(ctx context.Context, roomID, marker string, since time.Time) (Found, error) {
	s, err := c.current()
	if err != nil {
		return Found{}, err
	}
	mine, err := json.Marshal(map[string]any{"senders": []string{s.UserID}, "types": []string{"m.room.message", EventEncrypted}})
	if err != nil {
		return Found{}, err
	}
	query := url.Values{"dir": {"b"}, "limit": {"100"}, "filter": {string(mine)}}
	oldest := since.Add(-findSlack).UnixMilli()
	for range findPages {
		var page historyPage
		path := v3("rooms", roomID, "messages")
		if err := c.call(ctx, request{method: http.MethodGet, path: path, query: query, limit: maxListAnswer}, &page); err != nil {
			return Found{}, c.explain(ctx, roomID, err)
		}
		for _, e := range page.Chunk {
			if e.Sender == s.UserID && format.MarkerOf(e.Content) == marker {
				return Found{EventID: e.ID, Complete: true}, nil
			}
			if e.At < oldest {
				return Found{Complete: true}, nil
			}
		}
		if page.End == "" || page.End == query.Get("from") {
			return Found{Complete: true}, nil
		}
		query.Set("from", page.End)
	}
	return Found{}, nil
}

type historyPage struct {
	End   string `json:"end"`
	Chunk []struct {
		ID      string          `json:"event_id"`
		Sender  string          `json:"sender"`
		At      int64           `json:"origin_server_ts"`
		Content json.RawMessage `json:"content"`
	} `json:"chunk"`
}
