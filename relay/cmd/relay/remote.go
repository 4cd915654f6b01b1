package main

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
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/relay/internal/config"
)

// remote is the API of a relay: of one that runs, or, when none does, of one
// made in this process over the same database.
type remote struct {
	base           string
	name, password string // or
	token          string // of an application
	key            string // idempotency key of the requests; "" for none
	client         *http.Client
	stopped        bool // it is the one of this process
	close          func() error
}

// target says which relay a command means.
type target struct {
	config, url string
}

func (t *target) addFlags(cmd *cobra.Command) {
	addConfigFlag(cmd, &t.config)
	cmd.Flags().StringVar(&t.url, "url", "", "address of a running relay (default: from the configuration)")
}

// use finds the relay, as open does, and does something with it.
func (t *target) use(cmd *cobra.Command, do func(*remote) error) (err error) {
	r, err := t.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return do(r)
}

// open finds the relay. It logs in as the administrator of the configuration.
func (t *target) open(cmd *cobra.Command) (*remote, error) {
	cfg, err := loadConfig(cmd, t.config)
	if err != nil {
		return nil, err
	}
	r := &remote{name: cfg.Admin.Name, password: cfg.Admin.Password.Reveal(), client: &http.Client{Timeout: time.Minute}, close: func() error { return nil }}
	if t.url != "" {
		r.base, err = baseURL(t.url)
		return r, err
	}
	r.base = localURL(cfg)
	if r.client.Transport, err = localTransport(cfg); err != nil {
		return nil, err
	}
	_, err = r.do(cmd.Context(), http.MethodGet, "/livez", nil, nil)
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
		return r, err
	}
	return r, r.openHere(cmd.Context(), cfg)
}

// openHere makes the relay in this process, without delivering anything.
func (r *remote) openHere(ctx context.Context, cfg *config.Config) error {
	p, err := assemble(ctx, cfg, zap.NewNop(), nil, r.base)
	if err != nil {
		return fmt.Errorf("no relay runs at %s, and its database cannot be opened: %w", r.base, err)
	}
	if err := p.service.Hold(ctx); err != nil {
		return errors.Join(err, p.close())
	}
	r.client.Transport, r.close, r.stopped = inProcess{p.api}, p.close, true
	return nil
}

// do sends a request and decodes the answer into out, if there is one.
func (r *remote) do(ctx context.Context, method, path string, in, out any) (status int, err error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return 0, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.name != "" {
		req.SetBasicAuth(r.name, r.password)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("cannot reach the relay at %s: %w", r.base, reasonOf(err))
	}
	defer resp.Body.Close()
	return resp.StatusCode, decodeAnswer(resp, out)
}

// baseURL checks an address that a person gave.
func baseURL(address string) (string, error) {
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
