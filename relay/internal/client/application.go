package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// oldToken is how long a replaced token stays valid, for senders that still have it.
const oldToken = time.Hour

// repositoryDigest is the time for which a new application collects a registry's messages by repository.
const repositoryDigest = 10 * time.Minute

// ApplicationSetup creates an application with its room and token files.
type ApplicationSetup struct {
	Name     string
	Admin    string // name of the relay's administrator
	Person   string // Matrix ID of the administrator, who is invited to the room
	NewRoom  bool   // if the homeserver lost the room, create another application of the name
	Secrets  *Secrets
	Registry *Secrets  // what the registry reads
	Relay    *Client   // as its administrator
	Accounts *Accounts // nil without accounts
	Say      func(format string, args ...any)
}

// relayApplication is an application of the relay.
type relayApplication struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Owner   string `json:"owner"` // name of the user
	Token   string `json:"token"` // only when it is made
	RoomID  string `json:"resolved_room_id"`
	Problem string `json:"room_problem"`
}

func (app relayApplication) path() string { return "/application/" + strconv.FormatInt(app.ID, 10) }

// Make creates what is missing and keeps what exists.
func (a *ApplicationSetup) Make(ctx context.Context) error {
	err := a.enter(ctx)
	if !errors.Is(err, ErrNoRoom) {
		return err
	}
	if !a.NewRoom {
		return fmt.Errorf("the homeserver does not know the room of the application %s: if its data is lost, run setup once with --new-room, which makes another application of this name and renames the old one", a.Name)
	}
	if err := a.renameOld(ctx); err != nil {
		return err
	}
	return a.enter(ctx)
}

// enter creates the missing parts of application and room and joins the person.
func (a *ApplicationSetup) enter(ctx context.Context) error {
	app, err := a.application(ctx)
	if err != nil {
		return err
	}
	room, err := a.room(ctx, app)
	if err != nil {
		return err
	}
	if a.Accounts == nil {
		a.Say("room %s: %s is invited", room, a.Person)
		return nil
	}
	return a.Accounts.Enter(ctx, room)
}

// renameOld renames the application whose room is gone, to free its name.
func (a *ApplicationSetup) renameOld(ctx context.Context) error {
	app, err := a.find(ctx)
	if err != nil {
		return err
	}
	name := a.Name + ", until " + time.Now().UTC().Format("2006-01-02 15:04:05")
	if _, err := a.Relay.Do(ctx, http.MethodPut, app.path(), map[string]any{"name": name}, nil); err != nil {
		return err
	}
	a.Say("application %s: its room is gone; it is %q now", a.Name, name)
	return nil
}

// application finds or creates the application and writes a valid token.
func (a *ApplicationSetup) application(ctx context.Context) (app relayApplication, err error) {
	if app, err = a.find(ctx); err != nil {
		return app, err
	}
	good, err := a.tokenIsGood(ctx)
	if err != nil {
		return app, err
	}
	switch {
	case app.ID != 0 && good:
		a.Say("application %s: already exists, its token in %s is valid", a.Name, a.Secrets.Path(Token))
	case app.ID != 0 && a.own(app):
		if _, err = a.Relay.Do(ctx, http.MethodPost, app.path()+"/token", map[string]any{"grace": oldToken.String()}, &app); err != nil {
			return app, err
		}
		a.Say("application %s: already exists, a new token is in %s", a.Name, a.Secrets.Path(Token))
	default:
		app = relayApplication{}
		if _, err = a.Relay.Do(ctx, http.MethodPost, "/application", map[string]any{"name": a.Name, "repository_digest": repositoryDigest.String()}, &app); err != nil {
			return app, err
		}
		a.Say("application %s: created, its token is in %s", a.Name, a.Secrets.Path(Token))
	}
	return app, a.writeToken(app.Token)
}

// find returns the application by name: preferably the administrator's, otherwise anybody's, because the administrator may have
// given it away.
func (a *ApplicationSetup) find(ctx context.Context) (found relayApplication, err error) {
	var apps []relayApplication
	_, err = a.Relay.Do(ctx, http.MethodGet, "/application", nil, &apps)
	for _, app := range apps {
		if app.Name == a.Name && (found.ID == 0 || a.own(app)) {
			found = app
		}
	}
	return found, err
}

// own reports whether the administrator owns the application. Setup does not change others' tokens.
func (a *ApplicationSetup) own(app relayApplication) bool {
	return strings.EqualFold(app.Owner, a.Admin)
}

// tokenIsGood reports whether the relay accepts the file's token.
func (a *ApplicationSetup) tokenIsGood(ctx context.Context) (bool, error) {
	token, err := a.Secrets.Get(Token)
	if token == "" || err != nil {
		return false, err
	}
	asker := &Client{Base: a.Relay.Base, Token: token, HTTP: a.Relay.HTTP}
	status, err := asker.Do(ctx, http.MethodGet, "/message?limit=1", nil, nil)
	if status == http.StatusUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// writeToken writes a new token, and the header file in any case, because an earlier setup may have stopped between the two.
func (a *ApplicationSetup) writeToken(token string) (err error) {
	if token != "" {
		if err = a.Secrets.Put(Token, token); err != nil {
			return err
		}
	} else if token, err = a.Secrets.Get(Token); err != nil {
		return err
	}
	header := "Authorization: Bearer " + token
	if there, err := a.Registry.Get(Headers); there == header || err != nil {
		return err
	}
	a.Say("header of the registry's notifications: in %s", a.Registry.Path(Headers))
	return a.Registry.Put(Headers, header)
}

// refusedFor is how long a problem of a room may last before it counts as a refusal: one of an earlier setup is gone once the relay has tried
// again.
const refusedFor = 5 * time.Second

// room returns the ID of the application's room once the relay has made it. Each change of the application makes the relay try.
func (a *ApplicationSetup) room(ctx context.Context, app relayApplication) (string, error) {
	const longest = 8 * time.Second
	began := time.Now()
	for wait := time.Second / 2; app.RoomID == ""; wait = min(2*wait, longest) {
		select {
		case <-ctx.Done():
			reason := cmp.Or(app.Problem, "the homeserver doesn't make it")
			return "", fmt.Errorf("cannot make the room of the application %s in time; run setup again when this is repaired: %s", a.Name, reason)
		case <-time.After(wait):
		}
		app.Problem = "" // absent where nothing is wrong
		if _, err := a.Relay.Do(ctx, http.MethodPut, app.path(), struct{}{}, &app); err != nil && ctx.Err() == nil {
			return "", err
		}
		if app.Problem != "" && time.Since(began) > refusedFor {
			return "", fmt.Errorf("cannot make the room of the application %s: %s", a.Name, app.Problem)
		}
	}
	return app.RoomID, nil
}
