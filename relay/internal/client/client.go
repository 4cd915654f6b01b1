// Package client calls the API of a running relay, or of one in this process, and creates what a new relay needs: secrets, accounts at
// its homeserver, an application.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// Client calls the API of a relay.
type Client struct {
	Base           string // URL without a slash at the end
	Name, Password string // or
	Token          string // of an application
	Key            string // idempotency key of the requests; "" for none
	HTTP           *http.Client
}

// File is the content of a file that is the body of a request.
type File []byte

// Do sends a request and decodes the answer into out, unless that is nil. The status is 0 if there was no answer.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) (status int, err error) {
	var body io.Reader
	contentType := "application/json"
	if file, ok := in.(File); ok {
		body, contentType = bytes.NewReader(file), http.DetectContentType(file)
	} else if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return 0, err
	}
	if in != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if c.Name != "" {
		req.SetBasicAuth(c.Name, c.Password)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Key != "" {
		req.Header.Set("Idempotency-Key", c.Key)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return 0, fmt.Errorf("cannot reach the relay at %s: %w", c.Base, reasonOf(err))
	}
	defer resp.Body.Close()
	return resp.StatusCode, decodeAnswer(resp, out)
}

// BaseURL checks an address that a person gave.
func BaseURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is not the address of a relay, such as http://127.0.0.1:8080", address)
	}
	return strings.TrimRight(address, "/"), nil
}

// reasonOf is why a request got no answer, without the layers of packages that it passed.
func reasonOf(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var dns *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return errors.New("it did not answer in time")
	case errors.As(err, &dns):
		return fmt.Errorf("there is no host %s", dns.Name)
	case errors.As(err, &op) && errors.As(op.Err, &errno):
		return errno
	}
	return err
}

func decodeAnswer(resp *http.Response, out any) error {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		var refusal struct {
			Description string `json:"errorDescription"`
		}
		if json.Unmarshal(answer, &refusal) == nil && refusal.Description != "" {
			return fmt.Errorf("%s (%s)", refusal.Description, resp.Status)
		}
		if out != nil {
			_ = json.Unmarshal(answer, out) // of /health, which says more than the status
		}
		return fmt.Errorf("the relay answered %s", resp.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the answer does not come from a relay: %w", err)
	}
	return nil
}
