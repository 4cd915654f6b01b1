package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// User is a logged-in person. Tests read and write in rooms as this user.
type User struct {
	ID       string `json:"user_id"`
	Token    string `json:"access_token"`
	DeviceID string `json:"device_id"`
	Password string `json:"-"`

	server *Homeserver
	txn    int
}

// SynapseEvent is an event as its reader sees it.
type SynapseEvent struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender"`
	StateKey *string         `json:"state_key"`
	Content  json.RawMessage `json:"content"`
	Redacts  string          `json:"redacts"`
}

// Field is a string field of the content, "" when it is not there.
func (e SynapseEvent) Field(name string) string {
	var content map[string]any
	_ = json.Unmarshal(e.Content, &content) // a content that is no object has no fields
	s, _ := content[name].(string)
	return s
}

// Call makes a request with the user's token.
func (u *User) Call(ctx context.Context, method, path string, in, out any) error {
	return u.server.Call(ctx, u.Token, method, path, in, out)
}

func roomPath(room, rest string) string {
	return "/_matrix/client/v3/rooms/" + url.PathEscape(room) + rest
}

// CreateRoom makes a private room; extra fields of the request overwrite its defaults.
func (u *User) CreateRoom(ctx context.Context, name string, invite []string, extra map[string]any) (string, error) {
	req := map[string]any{"name": name, "preset": "private_chat", "invite": append([]string{}, invite...)}
	for k, v := range extra {
		req[k] = v
	}
	var room struct {
		ID string `json:"room_id"`
	}
	err := u.Call(ctx, http.MethodPost, "/_matrix/client/v3/createRoom", req, &room)
	return room.ID, err
}

// Join joins a room that the user is invited to.
func (u *User) Join(ctx context.Context, room string) error {
	return u.Call(ctx, http.MethodPost, roomPath(room, "/join"), struct{}{}, nil)
}

// Invite invites another user to the room.
func (u *User) Invite(ctx context.Context, room, userID string) error {
	return u.member(ctx, room, "/invite", userID)
}

// Kick removes another user from the room.
func (u *User) Kick(ctx context.Context, room, userID string) error {
	return u.member(ctx, room, "/kick", userID)
}

// Ban bans another user from the room.
func (u *User) Ban(ctx context.Context, room, userID string) error {
	return u.member(ctx, room, "/ban", userID)
}

func (u *User) member(ctx context.Context, room, action, userID string) error {
	return u.Call(ctx, http.MethodPost, roomPath(room, action), map[string]string{"user_id": userID}, nil)
}

// Send posts an event.
func (u *User) Send(ctx context.Context, room, kind string, content any) (string, error) {
	u.txn++
	var sent struct {
		ID string `json:"event_id"`
	}
	path := roomPath(room, fmt.Sprintf("/send/%s/t%d", kind, u.txn))
	err := u.Call(ctx, http.MethodPut, path, content, &sent)
	return sent.ID, err
}

// SetState sets a state event with an empty key.
func (u *User) SetState(ctx context.Context, room, kind string, content any) error {
	return u.Call(ctx, http.MethodPut, roomPath(room, "/state/"+kind+"/"), content, nil)
}

// Upgrade replaces the room by one of another version and returns the new one.
func (u *User) Upgrade(ctx context.Context, room, version string) (string, error) {
	var upgraded struct {
		Room string `json:"replacement_room"`
	}
	err := u.Call(ctx, http.MethodPost, roomPath(room, "/upgrade"), map[string]string{"new_version": version}, &upgraded)
	return upgraded.Room, err
}

// Messages returns all events of a type in a room, oldest first.
func (u *User) Messages(ctx context.Context, room, kind string) ([]SynapseEvent, error) {
	var all []SynapseEvent
	from := ""
	for {
		var page struct {
			Chunk []SynapseEvent `json:"chunk"`
			End   string         `json:"end"`
		}
		path := roomPath(room, "/messages?dir=b&limit=500")
		if from != "" {
			path += "&from=" + url.QueryEscape(from)
		}
		if err := u.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Chunk {
			if e.Type == kind {
				all = append(all, e)
			}
		}
		if page.End == "" || page.End == from {
			slices.Reverse(all)
			return all, nil
		}
		from = page.End
	}
}
