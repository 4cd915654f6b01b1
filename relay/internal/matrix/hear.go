package matrix

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"unicode"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/format"
	"slipway/relay/internal/store"
)

// syncAnswer is an answer of sync as the library has it. Events that are no events are
// left out: what a stranger may put into an invitation or send to the bot's device must
// not stop the stream.
type syncAnswer struct{ mautrix.RespSync }

// UnmarshalJSON decodes an answer.
func (a *syncAnswer) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &a.RespSync) == nil {
		return nil
	}
	a.RespSync = mautrix.RespSync{}
	const depth = 4 // rooms, join, a room's id, its timeline
	return json.Unmarshal(withoutBroken(b, depth), &a.RespSync)
}

// withoutBroken drops what does not decode from each list of events.
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

// take tells what an answer of sync says. quiet means that nothing in it would be
// missed if it were not stored that it was seen. An error says that ctx is done.
func (c *Client) take(ctx context.Context, first bool, answer *mautrix.RespSync) (quiet bool, err error) {
	me := id.UserID(c.UserID())
	quiet = len(answer.Rooms.Invite) == 0 && len(answer.Rooms.Leave) == 0
	var heard []Event
	for roomID, invite := range answer.Rooms.Invite {
		c.takeInvite(ctx, me, roomID.String(), invite.State.Events)
	}
	for roomID, left := range answer.Rooms.Leave {
		heard = append(heard, c.takeLeave(ctx, me, roomID.String(), left)...)
	}
	for roomID, joined := range answer.Rooms.Join {
		state, told := c.takeJoin(ctx, me, roomID.String(), first, joined)
		quiet = quiet && !state
		heard = append(heard, told...)
	}
	for _, e := range heard {
		if err := c.emit(ctx, e); err != nil {
			return quiet, err
		}
	}
	return quiet, c.emit(ctx, Synced{})
}

func (c *Client) takeInvite(ctx context.Context, me id.UserID, roomID string, state []*event.Event) {
	for _, e := range state {
		if e.Type.Type == "m.room.member" && isFor(e, me) && field(&e.Content, "membership") == "invite" {
			c.addPending(ctx, store.PendingJoin{RoomID: roomID, Inviter: e.Sender.String(), Via: serverOf(e.Sender.String())})
			return
		}
	}
}

// takeJoin takes what happened in a room that the bot is in; state says that its state
// has changed.
func (c *Client) takeJoin(ctx context.Context, me id.UserID, roomID string, first bool, joined *mautrix.SyncJoinedRoom) (state bool, heard []Event) {
	entered := first
	members := map[string]Event{} // the last word on each
	for _, part := range [][]*event.Event{joined.State.Events, joined.Timeline.Events} {
		for _, e := range part {
			switch {
			case e.StateKey == nil:
				if echo, ok := takeEcho(me, roomID, e); ok {
					heard = append(heard, echo)
				}
				continue
			case e.Type.Type == "m.room.member" && isFor(e, me):
				entered = entered || field(&e.Content, "membership") == "join"
			case e.Type.Type == "m.room.member":
				c.membersChanged(roomID)
				members[*e.StateKey] = Member{roomID, *e.StateKey, field(&e.Content, "membership")}
			default:
				heard = append(heard, c.takeState(ctx, roomID, e)...)
			}
			state = true
		}
	}
	if entered {
		c.dropPending(ctx, roomID)
		c.rooms.forgetCheck(roomID)
		heard = append(heard, Joined{roomID})
	}
	for m := range maps.Values(members) {
		heard = append(heard, m)
	}
	if len(members) > 0 { // whose devices a homeserver need not tell where the bot knows them from another room
		heard = append(heard, ReadersChanged{roomID})
	}
	return state, heard
}

// takeState takes a room's state, without its members.
func (c *Client) takeState(ctx context.Context, roomID string, e *event.Event) []Event {
	if *e.StateKey != "" {
		return nil
	}
	switch e.Type.Type {
	case "m.room.encryption":
		rules := encryptionRules(e.Content.VeryRaw)
		c.rooms.update(roomID, func(k *room) { k.encrypted, k.rules = true, &rules })
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
		if newID := field(&e.Content, "replacement_room"); newID != "" {
			c.rooms.update(roomID, func(k *room) { k.replacedBy = newID })
			c.addPending(ctx, store.PendingJoin{RoomID: newID, Replaces: roomID, Via: serverOf(e.Sender.String())})
		}
	}
	return nil
}

// takeEcho recognises an event of ours: by its transaction id, which only the
// device that sent it sees, or by the marker in its content.
func takeEcho(me id.UserID, roomID string, e *event.Event) (Echo, bool) {
	if e.Sender != me {
		return Echo{}, false
	}
	txn := e.Unsigned.TransactionID
	if txn == "" {
		txn = format.MarkerOf(e.Content.VeryRaw)
	}
	return Echo{roomID, txn, e.ID.String()}, txn != ""
}

func (c *Client) takeLeave(ctx context.Context, me id.UserID, roomID string, left *mautrix.SyncLeftRoom) []Event {
	c.dropPending(ctx, roomID)
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

// field is a text in an event's content, "" if there is none.
func field(content *event.Content, key string) string {
	s, _ := content.Raw[key].(string)
	return s
}

// maxLine is how much is kept of what others write, in characters.
const maxLine = 300

// line is one readable line of what others write: names and reasons end up in logs,
// pages and the database.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxLine {
		return string(runes[:maxLine]) + "…"
	}
	return text
}
