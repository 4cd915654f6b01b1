package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/config"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/setup"
)

// oldToken is how long a token that is lost stays valid after a new one is made:
// a sender that runs may still have it.
const oldToken = time.Hour

// applicationSetup makes the application of `relay setup`.
type applicationSetup struct {
	o        setupOptions
	cfg      *config.Config
	secrets  *setup.Secrets
	registry *setup.Secrets // what the registry reads
	remote   *remote
	accounts *setup.Accounts // nil if it made none
	say      func(string, ...any)
}

// make makes the application, its token's files and its room.
func (a *applicationSetup) make(ctx context.Context) error {
	if here := a.remote.here; here != nil {
		if err := a.logIn(ctx, here.bot.Probe); err != nil {
			return err
		}
		defer here.start(ctx)() // only a relay that runs makes the rooms that it owes
	}
	err := a.enter(ctx)
	if !errors.Is(err, setup.ErrNoRoom) {
		return err
	}
	if !a.o.newRoom {
		return fmt.Errorf("the homeserver does not know the room of the application %s: if its data is lost, run setup once with --new-room, which makes another application of this name and renames the old one", a.o.app)
	}
	if err := a.setAside(ctx); err != nil {
		return err
	}
	return a.enter(ctx)
}

// enter makes what is missing of the application and its room and lets the person
// in.
func (a *applicationSetup) enter(ctx context.Context) error {
	app, err := a.application(ctx)
	if err != nil {
		return err
	}
	if app.RoomID, err = a.room(ctx, app); err != nil {
		return err
	}
	if a.accounts == nil {
		a.say("room %s: %s is invited", app.RoomID, a.cfg.Admin.MatrixID)
		return nil
	}
	return a.accounts.Enter(ctx, app.RoomID)
}

// setAside renames the application, whose room is gone, so that another can have
// its name.
func (a *applicationSetup) setAside(ctx context.Context) error {
	app, err := a.find(ctx)
	if err != nil {
		return err
	}
	name := a.o.app + ", until " + time.Now().UTC().Format("2006-01-02 15:04:05")
	if _, err := a.remote.do(ctx, http.MethodPut, "/application/"+strconv.FormatInt(app.ID, 10), map[string]any{"name": name}, nil); err != nil {
		return err
	}
	a.say("application %s: its room is gone; it is %q now", a.o.app, name)
	return nil
}

// application finds the application or makes it, and writes a token that the
// relay takes.
func (a *applicationSetup) application(ctx context.Context) (app application, err error) {
	if app, err = a.find(ctx); err != nil {
		return app, err
	}
	good, err := a.tokenIsGood(ctx)
	if err != nil {
		return app, err
	}
	switch {
	case app.ID != 0 && good:
		a.say("application %s: there already, and its token in %s is good", a.o.app, a.secrets.Path(setup.Token))
	case app.ID != 0 && a.own(app):
		path := "/application/" + strconv.FormatInt(app.ID, 10) + "/token"
		if _, err = a.remote.do(ctx, http.MethodPost, path, map[string]any{"grace": oldToken.String()}, &app); err != nil {
			return app, err
		}
		a.say("application %s: there already, a new token is in %s", a.o.app, a.secrets.Path(setup.Token))
	default:
		if _, err = a.remote.do(ctx, http.MethodPost, "/application", map[string]any{"name": a.o.app}, &app); err != nil {
			return app, err
		}
		a.say("application %s: made, its token is in %s", a.o.app, a.secrets.Path(setup.Token))
	}
	return app, a.writeToken(app.Token)
}

// find returns the application of the name: the administrator's, or else one of somebody's,
// to whom the administrator may have given it.
func (a *applicationSetup) find(ctx context.Context) (found application, err error) {
	var apps []application
	if _, err := a.remote.do(ctx, http.MethodGet, "/application", nil, &apps); err != nil {
		return found, err
	}
	for _, app := range apps {
		if app.Name == a.o.app && (found.ID == 0 || a.own(app)) {
			found = app
		}
	}
	return found, nil
}

// own tells whether the administrator owns the application. The token of another's is
// not the setup's to change.
func (a *applicationSetup) own(app application) bool {
	return strings.EqualFold(app.Owner, a.cfg.Admin.Name)
}

// tokenIsGood asks the relay whether it takes the token of the file.
func (a *applicationSetup) tokenIsGood(ctx context.Context) (bool, error) {
	token, err := a.secrets.Get(setup.Token)
	if token == "" || err != nil {
		return false, err
	}
	asker := &remote{base: a.remote.base, token: token, client: a.remote.client}
	status, err := asker.do(ctx, http.MethodGet, "/message?limit=1", nil, nil)
	if status == http.StatusUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// writeToken writes a new token, and the header file in any case: an earlier setup
// may have ended between the two.
func (a *applicationSetup) writeToken(token string) (err error) {
	if token != "" {
		if err = a.secrets.Put(setup.Token, token); err != nil {
			return err
		}
	} else if token, err = a.secrets.Get(setup.Token); err != nil {
		return err
	}
	header := "Authorization: Bearer " + token
	if there, err := a.registry.Get(setup.Headers); there == header || err != nil {
		return err
	}
	a.say("header of the registry's notifications: in %s", a.registry.Path(setup.Headers))
	return a.registry.Put(setup.Headers, header)
}

// room waits until the application's room is there. What keeps it from being
// made, the doctor knows.
func (a *applicationSetup) room(ctx context.Context, app application) (string, error) {
	for app.RoomID == "" || app.RoomID[0] != '!' {
		select {
		case <-ctx.Done():
			return "", a.diagnosis()
		case <-time.After(200 * time.Millisecond):
		}
		var err error
		if app, err = a.find(ctx); err != nil {
			return "", err
		}
	}
	return app.RoomID, nil
}

// logIn makes the bot log in, so that nothing is waited for that cannot come.
func (a *applicationSetup) logIn(ctx context.Context, probe func(context.Context) error) error {
	err := probe(ctx)
	var failed *relay.SendError
	if errors.As(err, &failed) && failed.Code == "M_FORBIDDEN" {
		return setup.Refused(a.cfg.Matrix.Username, a.secrets.Path(setup.BotPassword))
	}
	if err != nil {
		return fmt.Errorf("the bot cannot log in: %w", err)
	}
	return nil
}

// diagnosis is what the doctor finds wrong, as one error.
func (a *applicationSetup) diagnosis() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var answer struct{ Findings []doctor.Finding }
	if _, err := a.remote.do(ctx, http.MethodGet, "/doctor", nil, &answer); err != nil {
		return err
	}
	why := []string{"the doctor finds nothing else wrong"}
	if !doctor.OK(answer.Findings) {
		why = nil
	}
	for _, f := range answer.Findings {
		if !f.OK {
			why = append(why, strings.TrimSuffix(f.Text, "."))
		}
	}
	return fmt.Errorf("the room of the application %s is not there after %v; run setup again when this is mended: %s", a.o.app, a.o.wait, strings.Join(why, "; "))
}
