package matrix

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// Rights are what a member's power level allows in a room.
type Rights struct {
	Write  bool // send messages
	Notify bool // mention the whole room; implies Write
}

// Standing is how a user stands in a room. Only members have rights.
type Standing struct {
	Joined bool
	Rights
}

// Standing returns how a user stands in a room that the bot is in.
func (c *Client) Standing(ctx context.Context, roomID, user string) (Standing, error) {
	membership, err := c.membership(ctx, roomID, user)
	if err != nil || membership != string(event.MembershipJoin) {
		return Standing{}, err
	}
	rights, err := c.rights(ctx, roomID, user)
	return Standing{Joined: true, Rights: rights}, err
}

// rights returns the rights of a user in a room that the bot is in. It doesn't tell whether the user is a member.
func (c *Client) rights(ctx context.Context, roomID, user string) (Rights, error) {
	standing, err := c.standing(ctx, roomID)
	if err != nil {
		return Rights{}, err
	}
	var content json.RawMessage
	if _, err := c.roomState(ctx, roomID, "m.room.power_levels", "", &content); err != nil {
		return Rights{}, c.notIn(err)
	}
	var levels event.PowerLevelsEventContent
	if content != nil {
		if err := json.Unmarshal(content, &levels); err != nil {
			return Rights{Write: true}, nil //nolint:nilerr // room versions below 10 may have levels as text: the homeserver decides
		}
	}
	kind := event.EventMessage
	if standing.encrypted {
		kind = event.EventEncrypted
	}
	rights := func() Rights {
		own := levels.GetUserLevel(id.UserID(user))
		write := own >= levels.GetEventLevel(kind)
		return Rights{Write: write, Notify: write && own >= levels.Notifications.Room()}
	}
	if r := rights(); r.Notify || strings.Contains(roomID, ":") {
		return r, nil
	}
	// Since room version 12, whose ids have no domain, creators outrank all levels.
	create := event.Event{Type: event.StateCreate}
	query := url.Values{"format": {"event"}}
	if err := c.ask(ctx, request{method: http.MethodGet, path: v3("rooms", roomID, "state", "m.room.create", ""), query: query}, &create); err != nil {
		return Rights{}, c.notIn(err)
	}
	if create.Content.ParseRaw(event.StateCreate) == nil {
		levels.CreateEvent = &create
	}
	return rights(), nil
}
