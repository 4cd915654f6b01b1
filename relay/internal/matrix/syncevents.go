package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/format"
	"slipway/relay/internal/store"
)

// syncAnswer is a sync response without malformed events: a stranger's invitation or message to the device must not stop the
// stream.
type syncAnswer struct{ mautrix.RespSync }

// UnmarshalJSON implements [json.Unmarshaler].
func (a *syncAnswer) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &a.RespSync) == nil {
		return nil
	}
	a.RespSync = mautrix.RespSync{}
	const depth = 4 // rooms, join, a room's id, its timeline
	return json.Unmarshal(withoutBroken(b, depth), &a.RespSync)
}

// withoutBroken removes malformed events from each list of events.
func withoutBroken(b json.RawMessage, depth int) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil {
		return b
	}
	for key, value := range object {
		var list []json.RawMessage
		switch {
		case key == "events" && json.Unmarshal(value, &list) == nil:
			kept := []json.RawMessage{}
			for _, e := range list {
				if json.Unmarshal(e, &event.Event{}) == nil {
					kept = append(kept, e)
				}
			}
			object[key], _ = json.Marshal(kept) // of JSON
		case depth > 0:
			object[key] = withoutBroken(value, depth-1)
		}
	}
	b, _ = json.Marshal(object) // of JSON
	return b
}

// take emits the events of a sync response. quiet reports that the response need not be stored as seen. The error is that of
// ctx.
func (c *Client) take(ctx context.Context, first bool, answer *mautrix.RespSync) (quiet bool, err error) {
	me := id.UserID(c.UserID())
	quiet = len(answer.Rooms.Invite) == 0 && len(answer.Rooms.Leave) == 0
	var events []Event
	for roomID, invite := range answer.Rooms.Invite {
		c.takeInvite(ctx, me, roomID.String(), invite.State.Events)
	}
	for roomID, left := range answer.Rooms.Leave {
		events = append(events, c.takeLeave(ctx, me, roomID.String(), left)...)
	}
	for roomID, joined := range answer.Rooms.Join {
		state, more := c.takeJoin(ctx, me, roomID.String(), first, joined)
		quiet = quiet && !state
		events = append(events, more...)
	}
	for _, e := range events {
		if err := c.emit(ctx, e); err != nil {
			return quiet, err
		}
	}
	return quiet, c.emit(ctx, Synced{})
}

func (c *Client) takeInvite(ctx context.Context, me id.UserID, roomID string, state []*event.Event) {
	for _, e := range state {
		if e.Type.Type == "m.room.member" && isFor(e, me) && field(&e.Content, "membership") == "invite" {
			c.joins.Add(ctx, store.PendingJoin{RoomID: roomID, Inviter: e.Sender.String(), Via: serverOf(e.Sender.String())})
			return
		}
	}
}

// takeJoin returns the events of a room that the bot is in. state reports whether its state changed.
func (c *Client) takeJoin(ctx context.Context, me id.UserID, roomID string, first bool, joined *mautrix.SyncJoinedRoom) (state bool, events []Event) {
	entered := first
	members := map[string]Event{} // the latest of each
	for _, part := range [][]*event.Event{joined.State.Events, joined.Timeline.Events} {
		for _, e := range part {
			switch {
			case e.StateKey == nil:
				if reaction, ok := takeReaction(me, roomID, e); ok {
					events = append(events, reaction)
				}
				continue
			case e.Type.Type == "m.room.member" && isFor(e, me):
				entered = entered || field(&e.Content, "membership") == "join"
			case e.Type.Type == "m.room.member":
				c.membersChanged(roomID)
				members[*e.StateKey] = Member{roomID, *e.StateKey, field(&e.Content, "membership")}
			default:
				events = append(events, c.takeState(ctx, roomID, e)...)
			}
			state = true
		}
	}
	if entered {
		c.joins.Drop(ctx, roomID)
		c.rooms.forgetCheck(roomID)
		events = append(events, Joined{roomID})
	}
	for m := range maps.Values(members) {
		events = append(events, m)
	}
	if len(members) > 0 { // a homeserver need not announce devices that the bot knows from another room
		events = append(events, ReadersChanged{roomID})
	}
	return state, events
}

// takeState handles a state event other than a membership.
func (c *Client) takeState(ctx context.Context, roomID string, e *event.Event) []Event {
	if *e.StateKey != "" {
		return nil
	}
	switch e.Type.Type {
	case "m.room.encryption":
		encrypted := false
		c.rooms.update(roomID, func(k *room) { encrypted = k.encrypt(e.Content.VeryRaw) })
		if !encrypted {
			return nil
		}
		return []Event{Encrypted{roomID}}
	case "m.room.name":
		return []Event{Named{roomID, line(field(&e.Content, "name"))}}
	case "m.room.history_visibility":
		c.membersChanged(roomID)
		return []Event{ReadersChanged{roomID}}
	case "m.room.power_levels":
		c.rooms.forgetCheck(roomID)
		return []Event{PowerLevels{roomID}}
	case "m.room.tombstone":
		newID := field(&e.Content, "replacement_room")
		c.rooms.update(roomID, func(k *room) { k.replacedBy = newID })
		if newID != "" {
			c.joins.Add(ctx, store.PendingJoin{RoomID: newID, Replaces: roomID, Via: serverOf(e.Sender.String())})
		}
		return []Event{Tombstone{roomID}}
	}
	return nil
}

// takeReaction recognizes a reaction, which is in the clear in encrypted rooms as well.
func takeReaction(me id.UserID, roomID string, e *event.Event) (Reaction, bool) {
	if e.Sender == me || e.Type.Type != EventReaction && e.Type.Type != EventEncrypted || !bytes.Contains(e.Content.VeryRaw, []byte("m.annotation")) {
		return Reaction{}, false
	}
	var content struct {
		Relation struct {
			Type    string `json:"rel_type"`
			EventID string `json:"event_id"`
			Key     string `json:"key"`
		} `json:"m.relates_to"`
	}
	if json.Unmarshal(e.Content.VeryRaw, &content) != nil || content.Relation.Type != "m.annotation" {
		return Reaction{}, false
	}
	return Reaction{roomID, content.Relation.EventID, e.Sender.String(), content.Relation.Key}, true
}

func (c *Client) takeLeave(ctx context.Context, me id.UserID, roomID string, left *mautrix.SyncLeftRoom) []Event {
	c.joins.Drop(ctx, roomID)
	c.rooms.forgetCheck(roomID)
	reason := "the bot is not in the room any more"
	for _, part := range [][]*event.Event{left.State.Events, left.Timeline.Events} {
		for _, e := range part {
			if e.Type.Type != "m.room.member" || !isFor(e, me) {
				continue
			}
			if e.Unsigned.PrevContent != nil && field(e.Unsigned.PrevContent, "membership") == "invite" {
				return nil // an invitation was taken back
			}
			reason = leftBecause(me, e)
		}
	}
	return []Event{Left{roomID, reason}}
}

func leftBecause(me id.UserID, e *event.Event) string {
	how := "the bot was removed from the room by " + e.Sender.String()
	switch {
	case field(&e.Content, "membership") == "ban":
		how = "the bot was banned from the room by " + e.Sender.String()
	case e.Sender == me:
		how = "the bot left the room"
	}
	if reason := field(&e.Content, "reason"); reason != "" {
		how += ": " + reason
	}
	return line(how)
}

func isFor(e *event.Event, user id.UserID) bool {
	return e.StateKey != nil && *e.StateKey == user.String()
}

// field returns a string in the content, or "".
func field(content *event.Content, key string) string {
	s, _ := content.Raw[key].(string)
	return s
}

// line returns others' text as one readable line: names and reasons appear in logs, pages, and the database.
func line(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return format.Line(strings.Join(strings.Fields(text), " "), 300)
}
