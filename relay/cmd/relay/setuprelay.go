package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/client"
	"slipway/relay/internal/config"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/setup"
	"slipway/relay/internal/store"
)

// openRelay returns the running relay or, because setup usually runs first, one in this process over the configuration's
// database.
func openRelay(ctx context.Context, cfg *config.Config, url, botPassword string) (setup.Relay, func() error, error) {
	r := &remote{Client: asAdmin(cfg)}
	r.Base = strings.TrimRight(url, "/")
	if r.Base == "" {
		r.Base = client.LocalURL(cfg)
		transport, err := client.LocalTransport(cfg)
		if err != nil {
			return nil, nil, err
		}
		r.HTTP.Transport = transport
	}
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := r.Do(look, http.MethodGet, "/livez", nil, nil); err == nil {
		return running{r}, func() error { return nil }, nil
	}
	p, err := assemble(ctx, cfg, zap.NewNop(), nil, client.LocalURL(cfg))
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, nil, fmt.Errorf("a relay that does not answer at %s has the database %s in use: give its address with --relay, or stop that relay", r.Base, cfg.Database.Where())
	case err != nil:
		return nil, nil, err
	}
	if err := p.service.Hold(ctx); err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	if err := logIn(ctx, cfg, p, botPassword); err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	r.HTTP.Transport = client.InProcess{Handler: p.api}
	return opened{running{r}, p.service}, p.close, nil
}

// logIn logs the bot in first, so that setup tries nothing that cannot succeed.
func logIn(ctx context.Context, cfg *config.Config, p *parts, botPassword string) error {
	err := p.bot.Probe(ctx)
	var failed *matrix.SendError
	if errors.As(err, &failed) && failed.Code == "M_FORBIDDEN" {
		return setup.Refused(cfg.Matrix.Username, botPassword)
	}
	if err != nil {
		return fmt.Errorf("the bot cannot log in: %w", err)
	}
	return nil
}

// opened is a relay in this process. It doesn't deliver, so its rooms are created on request.
type opened struct {
	running
	service *relay.Service
}

// EnsureRoom implements [setup.Relay].
func (o opened) EnsureRoom(ctx context.Context, id int64) (string, error) {
	admin, err := o.service.Authenticate(ctx, o.remote.Name, o.remote.Password, "setup")
	if err != nil {
		return "", err
	}
	app, err := o.service.EnsureRoom(ctx, admin, id)
	if refusal.KindOf(err) == refusal.KindUnavailable {
		return "", fmt.Errorf("%w: %w", setup.ErrRoomNotYet, err)
	}
	return app.RoomID, err
}

// running is a relay behind its API.
type running struct{ remote *remote }

// Applications implements [setup.Relay].
func (r running) Applications(ctx context.Context) ([]setup.Application, error) {
	var apps []application
	_, err := r.remote.Do(ctx, http.MethodGet, "/application", nil, &apps)
	list := make([]setup.Application, 0, len(apps))
	for _, app := range apps {
		list = append(list, app.forSetup())
	}
	return list, err
}

func (app application) forSetup() setup.Application {
	return setup.Application{ID: app.ID, Name: app.Name, Owner: app.Owner, Token: app.Token}
}

// Create implements [setup.Relay].
func (r running) Create(ctx context.Context, name string) (setup.Application, error) {
	var app application
	_, err := r.remote.Do(ctx, http.MethodPost, "/application", map[string]any{"name": name}, &app)
	return app.forSetup(), err
}

// NewToken implements [setup.Relay].
func (r running) NewToken(ctx context.Context, id int64, grace time.Duration) (setup.Application, error) {
	var app application
	_, err := r.remote.Do(ctx, http.MethodPost, applicationPath(id)+"/token", map[string]any{"grace": grace.String()}, &app)
	return app.forSetup(), err
}

// Rename implements [setup.Relay].
func (r running) Rename(ctx context.Context, id int64, name string) error {
	_, err := r.remote.Do(ctx, http.MethodPut, applicationPath(id), map[string]any{"name": name}, nil)
	return err
}

// TakesToken implements [setup.Relay].
func (r running) TakesToken(ctx context.Context, token string) (bool, error) {
	asker := &client.Client{Base: r.remote.Base, Token: token, HTTP: r.remote.HTTP}
	status, err := asker.Do(ctx, http.MethodGet, "/message?limit=1", nil, nil)
	if status == http.StatusUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// EnsureRoom implements [setup.Relay]. A relay that runs makes its rooms by itself.
func (r running) EnsureRoom(ctx context.Context, id int64) (string, error) {
	var app struct {
		Room    string `json:"resolved_room_id"`
		Problem string `json:"room_problem"`
	}
	if _, err := r.remote.Do(ctx, http.MethodGet, applicationPath(id), nil, &app); err != nil {
		return "", err
	}
	if app.Room == "" {
		return "", fmt.Errorf("%w: %s", setup.ErrRoomNotYet, app.Problem)
	}
	return app.Room, nil
}

func applicationPath(id int64) string { return "/application/" + strconv.FormatInt(id, 10) }
