// Package synapseadmin speaks to a Synapse homeserver as its operator does: it
// makes accounts by the registration secret, sets passwords, lifts limits. The
// relay's own deliveries do not use it.
package synapseadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Client asks one homeserver. It may be used by any number of goroutines.
type Client struct {
	base string
	http *http.Client
}

// New makes a client for the homeserver at base, such as
// https://matrix.example.org.
func New(base string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: time.Minute}}
}

// Error is a refusal of the homeserver.
type Error struct {
	Status     int
	Code       string        `json:"errcode"` // M_FORBIDDEN, M_USER_IN_USE …; "" if the answer was no Matrix error
	Text       string        `json:"error"`
	RetryAfter time.Duration `json:"-"` // of M_LIMIT_EXCEEDED
}

// Error returns the homeserver's own words.
func (e *Error) Error() string {
	text := strings.TrimSuffix(fmt.Sprintf("the homeserver answers %s: %s", strings.TrimSpace(fmt.Sprint(e.Status, " ", e.Code)), e.Text), ": ")
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; try again in %v", e.RetryAfter.Round(time.Second))
	}
	return text
}

// Call makes a request with a JSON body (nil for none) and decodes the answer
// into out (nil to drop it). A refusal is an [*Error]; one that only asks for
// patience is obeyed if ctx has a deadline that lets it.
func (c *Client) Call(ctx context.Context, token, method, path string, in, out any) error {
	for {
		err := c.once(ctx, token, method, path, in, out)
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || refused.RetryAfter <= 0 {
			return err
		}
		if end, ok := ctx.Deadline(); !ok || time.Until(end) < refused.RetryAfter {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(refused.RetryAfter):
		}
	}
}

func (c *Client) once(ctx context.Context, token, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("what answers at %s is not a Matrix homeserver: %w", c.base, err)
	}
	return nil
}

func refusal(status int, answer []byte) error {
	e := &Error{Status: status}
	var limit struct {
		Milliseconds int64 `json:"retry_after_ms"`
	}
	if json.Unmarshal(answer, e) != nil || e.Code == "" && e.Text == "" {
		e.Text = strings.ToValidUTF8(string(answer[:min(len(answer), 200)]), "")
	}
	if json.Unmarshal(answer, &limit) == nil {
		e.RetryAfter = time.Duration(limit.Milliseconds) * time.Millisecond
	}
	return e
}

// Ready reports whether a Matrix homeserver answers at the address.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var answer struct {
		Versions []string `json:"versions"`
	}
	if err := c.Call(ctx, "", http.MethodGet, "/_matrix/client/versions", nil, &answer); err != nil {
		return err
	}
	if len(answer.Versions) == 0 {
		return fmt.Errorf("what answers at %s is not a Matrix homeserver", c.base)
	}
	return nil
}
