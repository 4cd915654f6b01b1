package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	"maunium.net/go/mautrix/synapseadmin"
)

// Homeserver is a Synapse homeserver as its operator sees it.
type Homeserver struct {
	base *url.URL
}

// NewHomeserver returns the homeserver at an address, such as https://matrix.example.org. It does not use the network.
func NewHomeserver(address string) (*Homeserver, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return nil, fmt.Errorf("matrix.homeserver: %w", err)
	}
	base.RawPath = base.EscapedPath() // mautrix needs it to keep a path
	return &Homeserver{base: base}, nil
}

// client returns a client with a token, "" for none. It repeats requests that the homeserver limits for up to a minute.
func (h *Homeserver) client(token string) *synapseadmin.Client {
	return &synapseadmin.Client{Client: &mautrix.Client{
		HomeserverURL: h.base, AccessToken: token, UserAgent: "slipway-relay", Log: zerolog.Nop(),
		Client:             &http.Client{Timeout: time.Minute},
		DefaultHTTPRetries: 6, DefaultHTTPBackoff: time.Second, MaxHTTPBackoff: 10 * time.Second,
		ResponseSizeLimit: 4 << 20,
	}}
}

// ready returns an error unless a Matrix homeserver answers. It tries once.
func (h *Homeserver) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, mautrix.MaxAttemptsContextKey, 1), 10*time.Second)
	defer cancel()
	versions, err := h.client("").Client.Versions(ctx)
	if err == nil && len(versions.Versions) == 0 {
		err = fmt.Errorf("the server at %s is not a Matrix homeserver", h.base)
	}
	return err
}

// register creates an account and logs it in.
func (h *Homeserver) register(ctx context.Context, secret string, a synapseadmin.ReqSharedSecretRegister) (*mautrix.RespRegister, error) {
	return h.client("").SharedSecretRegister(ctx, secret, a)
}

// login opens a session on setup's own device.
func (h *Homeserver) login(ctx context.Context, name, password string) (*mautrix.RespLogin, error) {
	return h.client("").Client.Login(ctx, &mautrix.ReqLogin{
		Type: mautrix.AuthTypePassword, Password: password, DeviceID: "slipway-setup", InitialDeviceDisplayName: "Slipway",
		Identifier: mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: name},
	})
}

// logout ends a session.
func (h *Homeserver) logout(ctx context.Context, token string) error {
	_, err := h.client(token).Client.Logout(ctx)
	return err
}

// setPassword sets the password of an account, whose sessions continue. The token must be an administrator's.
func (h *Homeserver) setPassword(ctx context.Context, token, user, password string) error {
	return h.client(token).ResetPassword(ctx, synapseadmin.ReqResetPassword{UserID: id.UserID(user), NewPassword: password})
}

// membership returns the membership of a user in a room, "" if the room has none. The token must be an administrator's.
func (h *Homeserver) membership(ctx context.Context, token, room, user string) (event.Membership, error) {
	c := h.client(token).Client
	var answer struct {
		State []struct {
			Type     string                   `json:"type"`
			StateKey string                   `json:"state_key"`
			Content  event.MemberEventContent `json:"content"`
		} `json:"state"`
	}
	path := c.BuildURLWithQuery(mautrix.SynapseAdminURLPath{"v1", "rooms", room, "state"}, map[string]string{"type": "m.room.member"})
	if _, err := c.MakeRequest(ctx, http.MethodGet, path, nil, &answer); err != nil {
		return "", err
	}
	for _, e := range answer.State {
		if e.Type == "m.room.member" && e.StateKey == user {
			return e.Content.Membership, nil
		}
	}
	return "", nil
}
