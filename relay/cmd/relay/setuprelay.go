package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/client"
	"slipway/relay/internal/config"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// openRelay connects a setup to the running relay or, because setup usually runs first, to one that runs in this process, until done is
// called.
func openRelay(ctx context.Context, cfg *config.Config, a *client.ApplicationSetup, url, botPassword string) (done func() error, err error) {
	r := asAdmin(cfg)
	r.Base = strings.TrimRight(url, "/")
	if r.Base == "" {
		r.Base = client.LocalURL(cfg)
		transport, err := client.LocalTransport(cfg)
		if err != nil {
			return nil, err
		}
		r.HTTP.Transport = transport
	}
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := r.Do(look, http.MethodGet, "/livez", nil, nil); err == nil {
		a.Relay = &r
		return func() error { return nil }, nil
	}
	p, err := assemble(ctx, cfg, zap.NewNop(), nil, client.LocalURL(cfg))
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("a relay that does not answer at %s has the database %s in use: give its address with --url, or stop that relay", r.Base, cfg.Database.Where())
	case err != nil:
		return nil, err
	}
	stop := p.start(ctx)
	done = func() error {
		stop()
		return p.close()
	}
	if err := logIn(ctx, cfg, p, botPassword); err != nil {
		return nil, errors.Join(err, done())
	}
	r.HTTP.Transport = client.InProcess{Handler: p.api}
	a.Relay = &r
	return done, nil
}

// loginWithin bounds the first login of a relay that shares its database: it waits for the lease, which one that was killed may still hold.
const loginWithin = time.Minute

// logIn logs the bot in first, so that setup tries nothing that cannot succeed.
func logIn(ctx context.Context, cfg *config.Config, p *parts, botPassword string) error {
	err := p.bot.Probe(ctx)
	for end := time.Now().Add(loginWithin); errors.Is(err, matrix.ErrNoLogin) && ctx.Err() == nil && time.Now().Before(end); err = p.bot.Probe(ctx) {
		time.Sleep(100 * time.Millisecond)
	}
	var failed *matrix.SendError
	if errors.As(err, &failed) && failed.Code == "M_FORBIDDEN" && failed.Setting == "" {
		return client.Refused(cfg.Matrix.Username, botPassword)
	}
	if err != nil {
		return fmt.Errorf("the bot cannot log in: %w", err)
	}
	return nil
}
