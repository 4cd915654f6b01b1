package synapseadmin

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the registration API defines it
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ErrTaken is returned for an account whose name is in use.
var ErrTaken = errors.New("the account exists already")

// Session is a login.
type Session struct {
	UserID string `json:"user_id"`
	Token  string `json:"access_token"`
}

// Account is one to be made.
type Account struct {
	Name     string // the part of its Matrix ID before the colon
	Password string
	Admin    bool // of the homeserver
}

// Register makes an account by the registration secret (Synapse, "Register a user
// by shared secret") and logs it in. [ErrTaken] if the name is in use.
func (c *Client) Register(ctx context.Context, secret string, a Account) (Session, error) {
	const path = "/_synapse/admin/v1/register"
	var nonce struct{ Nonce string }
	if err := c.Call(ctx, "", http.MethodGet, path, nil, &nonce); err != nil {
		return Session{}, err
	}
	role := "notadmin"
	if a.Admin {
		role = "admin"
	}
	mac := hmac.New(sha1.New, []byte(secret))
	fmt.Fprintf(mac, "%s\x00%s\x00%s\x00%s", nonce.Nonce, a.Name, a.Password, role)
	var s Session
	err := c.Call(ctx, "", http.MethodPost, path, map[string]any{
		"nonce": nonce.Nonce, "username": a.Name, "password": a.Password, "admin": a.Admin, "mac": hex.EncodeToString(mac.Sum(nil)),
	}, &s)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "M_USER_IN_USE" {
		return Session{}, ErrTaken
	}
	return s, err
}

// Login opens a session on the named device, which is made if it is not there.
func (c *Client) Login(ctx context.Context, name, password, device string) (Session, error) {
	var s Session
	err := c.Call(ctx, "", http.MethodPost, "/_matrix/client/v3/login", map[string]any{
		"type": "m.login.password", "password": password, "device_id": device, "initial_device_display_name": "Slipway",
		"identifier": map[string]string{"type": "m.id.user", "user": name},
	}, &s)
	return s, err
}

// Logout ends a session.
func (c *Client) Logout(ctx context.Context, token string) error {
	return c.Call(ctx, token, http.MethodPost, "/_matrix/client/v3/logout", struct{}{}, nil)
}

// Whose returns the Matrix ID that a token belongs to.
func (c *Client) Whose(ctx context.Context, token string) (string, error) {
	var s Session
	err := c.Call(ctx, token, http.MethodGet, "/_matrix/client/v3/account/whoami", nil, &s)
	return s.UserID, err
}

// SetPassword gives an account a password; its sessions stay. The token is an
// administrator's, here and below.
func (c *Client) SetPassword(ctx context.Context, token, userID, password string) error {
	path := "/_synapse/admin/v1/reset_password/" + url.PathEscape(userID)
	return c.Call(ctx, token, http.MethodPost, path, map[string]any{"new_password": password, "logout_devices": false}, nil)
}

// Deactivate ends an account for good.
func (c *Client) Deactivate(ctx context.Context, token, userID string) error {
	path := "/_synapse/admin/v1/deactivate/" + url.PathEscape(userID)
	return c.Call(ctx, token, http.MethodPost, path, map[string]any{"erase": true}, nil)
}

// LiftRateLimit exempts a user from the limit of messages.
func (c *Client) LiftRateLimit(ctx context.Context, token, userID string) error {
	path := "/_synapse/admin/v1/users/" + url.PathEscape(userID) + "/override_ratelimit"
	return c.Call(ctx, token, http.MethodPost, path, map[string]int{"messages_per_second": 0, "burst_count": 0}, nil)
}

// Membership tells how a user stands in a room: join, invite, leave, ban, or ""
// if the room does not know the user.
func (c *Client) Membership(ctx context.Context, token, room, userID string) (string, error) {
	var answer struct {
		State []struct {
			Type     string `json:"type"`
			StateKey string `json:"state_key"`
			Content  struct {
				Membership string `json:"membership"`
			} `json:"content"`
		} `json:"state"`
	}
	path := "/_synapse/admin/v1/rooms/" + url.PathEscape(room) + "/state?type=m.room.member"
	if err := c.Call(ctx, token, http.MethodGet, path, nil, &answer); err != nil {
		return "", err
	}
	for _, e := range answer.State {
		if e.Type == "m.room.member" && e.StateKey == userID {
			return e.Content.Membership, nil
		}
	}
	return "", nil
}

// Join enters a room that the token's owner is invited to.
func (c *Client) Join(ctx context.Context, token, room string) error {
	return c.Call(ctx, token, http.MethodPost, "/_matrix/client/v3/rooms/"+url.PathEscape(room)+"/join", struct{}{}, nil)
}
