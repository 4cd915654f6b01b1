package matrix

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// NewRoom describes a room to create.
type NewRoom struct {
	Key    string // 128 random bits or more as text, the same for each attempt at this room
	Name   string
	Topic  string
	Invite []string // Matrix ids
}

// NewRooms reports whether the rooms that the bot creates are encrypted, and why not although they should be. A device that
// cannot be opened now makes no difference: messages wait.
func (c *Client) NewRooms() (encrypted bool, problem string) {
	s := c.session.Load()
	switch {
	case !c.options.EncryptNewRooms:
		return false, ""
	case !builtWithEncryption:
		return false, "the relay is built without -tags goolm"
	case len(c.options.PickleKey) == 0:
		return false, "matrix.pickle_key is not set"
	case s != nil && s.DeviceID == noDevice:
		return false, "the bot's access token belongs to no device"
	}
	return true, ""
}

// Create creates a private room, encrypted if [Client.NewRooms] reports so, and invites users with the bot's rights. With the
// key of an earlier call, after a lost answer or a restart, it returns that call's room, found by an alias made of the key.
// Where the homeserver forbids aliases, a lost answer leads to a second room.
func (c *Client) Create(ctx context.Context, n NewRoom) (string, error) {
	s, err := c.current()
	if err != nil {
		return "", err
	}
	if n.Key == "" || c.noAliases.Load() {
		return c.create(ctx, n, "")
	}
	name := "slipway-" + strings.ToLower(n.Key)
	roomID, err := c.create(ctx, n, name)
	if !hasClass(err, ClassBlock, ClassDead) {
		return roomID, err
	}
	// The homeserver may have refused after creating the room: it invites last.
	alias := "#" + name + ":" + serverOf(s.UserID)
	existing, found, err := c.roomOfAlias(ctx, alias, s.UserID)
	switch {
	case err != nil:
		return "", err
	case found:
		return existing, c.inviteAll(ctx, existing, n.Invite)
	}
	if roomID, err = c.create(ctx, n, ""); err == nil {
		c.noAliases.Store(true)
		c.log.Warn("the homeserver does not let the bot make room aliases: if an answer about a new room is lost, another room is made")
	}
	return roomID, err
}

func (c *Client) create(ctx context.Context, n NewRoom, alias string) (string, error) {
	in := mautrix.ReqCreateRoom{Name: n.Name, Topic: n.Topic, Preset: "trusted_private_chat", Visibility: "private", RoomAliasName: alias}
	for _, user := range n.Invite {
		in.Invite = append(in.Invite, id.UserID(user))
	}
	encrypted, problem := c.NewRooms()
	if encrypted {
		rules := event.Content{Parsed: &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}}
		in.InitialState = []*event.Event{{Type: event.StateEncryption, Content: rules}}
	}
	var out mautrix.RespCreateRoom
	err := c.ask(ctx, request{method: http.MethodPost, path: v3("createRoom"), in: in}, &out)
	if hasClass(err, ClassBlock, ClassDead) {
		return "", reclassify(err, ClassBlock, "the homeserver does not let the bot create the room: is the owner's Matrix ID right?")
	}
	if err == nil && out.RoomID == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	if err == nil && problem != "" {
		c.log.Warn("made a room without encryption", zap.String("room", out.RoomID.String()), zap.String("reason", problem))
	}
	return out.RoomID.String(), err
}

// roomOfAlias returns the room of a key's alias. It accepts only a room that the bot created. A homeserver sets the alias before the bot
// is in the room: after a request that was given up, it may still be making that.
func (c *Client) roomOfAlias(ctx context.Context, alias, me string) (roomID string, found bool, err error) {
	var out mautrix.RespAliasResolve
	err = c.ask(ctx, request{method: http.MethodGet, path: v3("directory", "room", alias)}, &out)
	if hasClass(err, ClassBlock, ClassDead) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var create struct {
		Sender string `json:"sender"`
	}
	roomID = out.RoomID.String()
	path := v3("rooms", roomID, "state", "m.room.create", "")
	for end := time.Now().Add(c.creationWithin); ; {
		err = c.ask(ctx, request{method: http.MethodGet, path: path, query: url.Values{"format": {"event"}}}, &create)
		if !hasClass(err, ClassBlock, ClassDead) || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done(): // the next request says so
		}
	}
	if hasClass(err, ClassBlock, ClassDead) || err == nil && create.Sender != me {
		return "", false, &SendError{Class: ClassBlock, Reason: "the alias " + alias + " of the application's room belongs to a room that is not the bot's: give the application another room"}
	}
	return roomID, err == nil, err
}

// inviteAll completes the invitations of a room that was found.
func (c *Client) inviteAll(ctx context.Context, roomID string, users []string) error {
	for _, user := range users {
		err := c.invite(ctx, roomID, user)
		if hasClass(err, ClassRetry) {
			return withReason(err, "the application's room is there, but its owner "+user+" cannot be invited yet: "+reasonOf(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// invite invites a user who is neither a member nor invited.
func (c *Client) invite(ctx context.Context, roomID, user string) error {
	var member event.MemberEventContent
	if _, err := c.roomState(ctx, roomID, "m.room.member", user, &member); err != nil {
		return err
	}
	if member.Membership == event.MembershipJoin || member.Membership == event.MembershipInvite {
		return nil
	}
	err := c.ask(ctx, request{method: http.MethodPost, path: v3("rooms", roomID, "invite"), in: mautrix.ReqInviteUser{UserID: id.UserID(user)}}, nil)
	if hasClass(err, ClassBlock, ClassDead) {
		return reclassify(err, ClassBlock, "the homeserver does not let the bot invite the owner "+user+" into the room: is the owner's Matrix ID right?")
	}
	return err
}
