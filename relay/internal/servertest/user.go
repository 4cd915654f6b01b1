package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/synapseadmin"
)

// api returns a client with a token, "" for none. It repeats requests that the homeserver limits.
func (s *Homeserver) api(token string) *synapseadmin.Client {
	return &synapseadmin.Client{Client: &mautrix.Client{
		HomeserverURL: s.base, AccessToken: token, Client: s.http, Log: zerolog.Nop(), ResponseSizeLimit: 16 << 20,
		DefaultHTTPRetries: 10, DefaultHTTPBackoff: time.Second, MaxHTTPBackoff: 10 * time.Second,
	}}
}

// UserID is @name:domain.
func (s *Homeserver) UserID(name string) string { return "@" + name + ":" + s.Domain }

// CreateUser makes an account through the shared-secret API. An account of that
// name that exists already is left as it is.
func (s *Homeserver) CreateUser(ctx context.Context, name, password string, admin bool) error {
	_, err := s.register(ctx, synapseadmin.ReqSharedSecretRegister{Username: name, Password: password, Admin: admin, InhibitLogin: true})
	if errors.Is(err, mautrix.MUserInUse) {
		return nil
	}
	return err
}

func (s *Homeserver) register(ctx context.Context, r synapseadmin.ReqSharedSecretRegister) (*mautrix.RespRegister, error) {
	return s.api("").SharedSecretRegister(ctx, s.secret, r)
}

// Login opens a session with a new device.
func (s *Homeserver) Login(ctx context.Context, name, password string) (*User, error) {
	u := &User{server: s}
	err := s.Call(ctx, "", http.MethodPost, "/_matrix/client/v3/login", map[string]any{
		"type": "m.login.password", "password": password,
		"identifier": map[string]string{"type": "m.id.user", "user": name},
	}, u)
	return u, err
}

// NewUser makes an account, which must not exist, and a session of it.
func (s *Homeserver) NewUser(ctx context.Context, name string, admin bool) (*User, error) {
	password := name + "-password"
	made, err := s.register(ctx, synapseadmin.ReqSharedSecretRegister{Username: name, Password: password, Admin: admin})
	if err != nil {
		return nil, err
	}
	return &User{ID: made.UserID.String(), Token: made.AccessToken, DeviceID: made.DeviceID.String(), Password: password, server: s}, nil
}

// Call makes a request with a JSON body (nil for none) and decodes the answer
// into out (nil to drop it). A refusal is a [mautrix.HTTPError].
func (s *Homeserver) Call(ctx context.Context, token, method, path string, in, out any) error {
	_, err := s.api(token).Client.MakeRequest(ctx, method, s.URL+path, in, out)
	return err
}

// Download reads what an mxc: URI names.
func (u *User) Download(ctx context.Context, uri string) ([]byte, error) {
	path, ok := strings.CutPrefix(uri, "mxc://")
	if !ok {
		return nil, fmt.Errorf("homeserver: %q is no mxc: URI", uri)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.server.URL+"/_matrix/client/v1/media/download/"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+u.Token)
	resp, err := u.server.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("homeserver: download %s: %s: %s", uri, resp.Status, body)
	}
	return body, err
}
