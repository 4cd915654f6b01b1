package synapse

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the registration API defines it
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Error is a refusal of the homeserver.
type Error struct {
	Status int
	Code   string `json:"errcode"`
	Text   string `json:"error"`
}

func (e *Error) Error() string { return fmt.Sprintf("synapse: %d %s: %s", e.Status, e.Code, e.Text) }

// UserID is @name:domain.
func (s *Server) UserID(name string) string { return "@" + name + ":" + s.Domain }

// CreateUser makes an account through the shared-secret API. An account of that
// name that exists already is left as it is.
func (s *Server) CreateUser(ctx context.Context, name, password string, admin bool) error {
	const path = "/_synapse/admin/v1/register"
	var nonce struct{ Nonce string }
	if err := s.Call(ctx, "", http.MethodGet, path, nil, &nonce); err != nil {
		return err
	}
	role := "notadmin"
	if admin {
		role = "admin"
	}
	mac := hmac.New(sha1.New, []byte(s.secret))
	fmt.Fprintf(mac, "%s\x00%s\x00%s\x00%s", nonce.Nonce, name, password, role)
	err := s.Call(ctx, "", http.MethodPost, path, map[string]any{
		"nonce": nonce.Nonce, "username": name, "password": password, "admin": admin,
		"mac": hex.EncodeToString(mac.Sum(nil)), "inhibit_login": true,
	}, nil)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "M_USER_IN_USE" {
		return nil
	}
	return err
}

// Login opens a session with a new device.
func (s *Server) Login(ctx context.Context, name, password string) (*User, error) {
	u := &User{server: s}
	err := s.Call(ctx, "", http.MethodPost, "/_matrix/client/v3/login", map[string]any{
		"type": "m.login.password", "password": password,
		"identifier": map[string]string{"type": "m.id.user", "user": name},
	}, u)
	return u, err
}

// NewUser makes an account and logs it in.
func (s *Server) NewUser(ctx context.Context, name string, admin bool) (*User, error) {
	password := name + "-password"
	if err := s.CreateUser(ctx, name, password, admin); err != nil {
		return nil, err
	}
	u, err := s.Login(ctx, name, password)
	if err == nil {
		u.Password = password
	}
	return u, err
}

// LiftRateLimit exempts a user from the message rate limit; the caller must be
// the token of an administrator.
func (s *Server) LiftRateLimit(ctx context.Context, adminToken, userID string) error {
	path := "/_synapse/admin/v1/users/" + url.PathEscape(userID) + "/override_ratelimit"
	return s.Call(ctx, adminToken, http.MethodPost, path, map[string]int{"messages_per_second": 0, "burst_count": 0}, nil)
}

// Call makes a request with a JSON body (nil for none) and decodes the answer
// into out (nil to drop it). A refusal is an *Error.
func (s *Server) Call(ctx context.Context, token, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		refused := &Error{Status: resp.StatusCode}
		if json.Unmarshal(answer, refused) != nil {
			refused.Text = string(answer)
		}
		return refused
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Download reads what an mxc: URI names.
func (u *User) Download(ctx context.Context, uri string) ([]byte, error) {
	path, ok := strings.CutPrefix(uri, "mxc://")
	if !ok {
		return nil, fmt.Errorf("synapse: %q is no mxc: URI", uri)
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
		err = &Error{Status: resp.StatusCode, Text: string(body)}
	}
	return body, err
}
