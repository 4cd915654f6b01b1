package matrix

import (
	"context"
	"net/http"
	"net/url"

	"maunium.net/go/mautrix"
)

// Reactions returns the latest reactions of others to an event, at most 100. Sync may have left them out in a busy room.
func (c *Client) Reactions(ctx context.Context, roomID, eventID string) (all []Reaction, err error) {
	s, err := c.current()
	if err != nil {
		return nil, err
	}
	var page struct {
		Chunk []struct {
			Sender  string `json:"sender"`
			Content struct {
				Relation struct {
					Key string `json:"key"`
				} `json:"m.relates_to"`
			} `json:"content"`
		} `json:"chunk"`
	}
	path := mautrix.ClientURLPath{"v1", "rooms", roomID, "relations", eventID, "m.annotation", EventReaction}
	if err := c.call(ctx, request{method: http.MethodGet, path: path, query: url.Values{"limit": {"100"}}, limit: maxListAnswer}, &page); err != nil {
		return nil, err
	}
	for _, e := range page.Chunk {
		if e.Sender != s.UserID {
			all = append(all, Reaction{roomID, eventID, e.Sender, e.Content.Relation.Key})
		}
	}
	return all, nil
}
