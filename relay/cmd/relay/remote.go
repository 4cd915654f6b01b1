package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/relay/internal/client"
	"slipway/relay/internal/config"
	"slipway/relay/internal/store"
	"slipway/shared/command"
)

// remote is a client of the running relay or, if none runs, of an in-process relay over the same database.
type remote struct {
	client.Client
	stopped bool // it is the one of this process
	close   func() error
}

// Do is [client.Client.Do]. A refusal has the exit code of one.
func (r *remote) Do(ctx context.Context, method, path string, in, out any) (status int, err error) {
	status, err = r.Client.Do(ctx, method, path, in, out)
	switch status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return status, err
	}
	if status/100 == 4 {
		err = command.Refused(err)
	}
	return status, err
}

// show sends a request and writes the answer as JSON or, once it is in out, by text.
func (r *remote) show(cmd *cobra.Command, asJSON bool, method, path string, in, out any, text func(io.Writer) error) error {
	var raw json.RawMessage
	if _, err := r.Do(cmd.Context(), method, path, in, &raw); err != nil {
		return err
	}
	if asJSON {
		return command.WriteJSON(cmd.OutOrStdout(), raw)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return err
	}
	return text(cmd.OutOrStdout())
}

// target holds the flags that select a relay.
type target struct{ url string }

func (t *target) addFlags(cmd *cobra.Command) {
	addConfigFlag(cmd)
	cmd.Flags().StringVar(&t.url, "url", "", "address of a running relay (default: from the configuration)")
}

// onRelay adds the relay flags to cmd and runs do with a client that is logged in as the administrator.
func onRelay(cmd *cobra.Command, do func(cmd *cobra.Command, r *remote, args []string) error) *cobra.Command {
	var t target
	t.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		r, err := t.open(cmd)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		return do(cmd, r, args)
	}
	return cmd
}

// open returns a client of the running relay or, if nothing listens at the configured address, of one in this process. The
// caller must close it.
func (t *target) open(cmd *cobra.Command) (*remote, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	r := &remote{Client: asAdmin(cfg), close: func() error { return nil }}
	if t.url != "" {
		r.Base, err = client.BaseURL(t.url)
		return r, err
	}
	r.Base = client.LocalURL(cfg)
	if r.HTTP.Transport, err = client.LocalTransport(cfg); err != nil {
		return nil, err
	}
	for end := time.Now().Add(startingTime); ; time.Sleep(100 * time.Millisecond) {
		_, err = r.Do(cmd.Context(), http.MethodGet, "/livez", nil, nil)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return r, err
		}
		if err = r.openHere(cmd.Context(), cfg); !errors.Is(err, store.ErrLocked) {
			return r, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("a relay has the database %s open but doesn't answer at %s: give its address with --url, or stop it", cfg.Database.Where(), r.Base)
		}
	}
}

// startingTime bounds the wait for a relay that has its database open but doesn't listen yet.
var startingTime = 10 * time.Second

// asAdmin is a client that logs in as the administrator of the configuration.
func asAdmin(cfg *config.Config) client.Client {
	return client.Client{Name: cfg.Admin.Name, Password: cfg.Admin.Password.Reveal(), HTTP: &http.Client{Timeout: time.Minute}}
}

// openHere starts an in-process relay that delivers nothing.
func (r *remote) openHere(ctx context.Context, cfg *config.Config) error {
	p, err := assemble(ctx, cfg, zap.NewNop(), nil, r.Base)
	if err != nil {
		return fmt.Errorf("no relay runs at %s, and its database cannot be opened: %w", r.Base, err)
	}
	r.HTTP.Transport, r.close, r.stopped = client.InProcess{Handler: p.api}, p.close, true
	return nil
}
