package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"slipway/relay/internal/synapseadmin"
)

// ServerAdmin is the local part of the homeserver's administrator that setup
// makes for itself.
const ServerAdmin = "slipway-admin"

const device = "slipway-setup" // of the sessions that setup opens

// Accounts are those that the relay needs on a homeserver.
type Accounts struct {
	Homeserver   *synapseadmin.Client
	Secrets      *Secrets
	Registration string // the homeserver's registration secret
	Bot          string // Matrix ID, or its local part
	BotPassword  string // "" if the bot has an access token of its own
	Person       string // Matrix ID of who is invited to rooms; made if it is of this homeserver
	Reset        bool   // give accounts that exist the passwords of the files
	Say          func(format string, args ...any)

	token  string // of the homeserver's administrator
	server string // the homeserver's name
}

// Make makes what is missing of the homeserver's administrator, the bot, whose
// limit of messages it lifts, and the person.
func (a *Accounts) Make(ctx context.Context) error {
	if err := a.administrator(ctx); err != nil {
		return err
	}
	if err := a.bot(ctx); err != nil {
		return err
	}
	return a.person(ctx)
}

// administrator finds or makes the session that all else is done with.
func (a *Accounts) administrator(ctx context.Context) error {
	if _, err := a.Secrets.Make(ServerPassword); err != nil {
		return err
	}
	id, err := a.known(ctx)
	if err != nil {
		return err
	}
	if id == "" {
		if id, err = a.become(ctx); err != nil {
			return err
		}
		if err := a.Secrets.Put(ServerToken, a.token); err != nil {
			return err
		}
	}
	_, a.server, _ = strings.Cut(id, ":")
	return nil
}

// known returns whose session was kept, "" if there is none that is good.
func (a *Accounts) known(ctx context.Context) (id string, err error) {
	if a.token, err = a.Secrets.Get(ServerToken); a.token == "" || err != nil {
		return "", err
	}
	id, err = a.Homeserver.Whose(ctx, a.token)
	var refused *synapseadmin.Error
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		return "", nil
	}
	return id, err
}

// become registers the homeserver's administrator or logs it in.
func (a *Accounts) become(ctx context.Context) (string, error) {
	password, err := a.Secrets.Get(ServerPassword)
	if err != nil {
		return "", err
	}
	account := synapseadmin.Account{Name: ServerAdmin, Password: password, Admin: true}
	s, err := a.Homeserver.Register(ctx, a.Registration, account)
	if errors.Is(err, synapseadmin.ErrTaken) {
		if a.Reset {
			if err := a.resetAdministrator(ctx, password); err != nil {
				return "", err
			}
		}
		s, err = a.Homeserver.Login(ctx, ServerAdmin, password, device)
		if forbidden(err) {
			return "", Refused("@"+ServerAdmin, a.Secrets.Path(ServerPassword))
		}
	} else if err == nil {
		a.Say("account %s: made, the homeserver's administrator", s.UserID)
	}
	a.token = s.Token
	return s.UserID, registrationRefused(err)
}

// resetAdministrator gives the administrator the password of the file by another
// one that lives for this moment only.
func (a *Accounts) resetAdministrator(ctx context.Context, password string) error {
	helper, err := a.Homeserver.Register(ctx, a.Registration, throwaway())
	if err != nil {
		return registrationRefused(err)
	}
	_, server, _ := strings.Cut(helper.UserID, ":")
	err = a.Homeserver.SetPassword(ctx, helper.Token, "@"+ServerAdmin+":"+server, password)
	return errors.Join(err, a.Homeserver.Deactivate(ctx, helper.Token, helper.UserID))
}

func (a *Accounts) bot(ctx context.Context) error {
	if a.Bot == "" {
		a.Say("account of the bot: has an access token in the configuration and no name, nothing to make")
		return nil
	}
	name, server := split(a.Bot)
	if server != "" && server != a.server {
		return fmt.Errorf("matrix.username is %s, but the homeserver's name is %s: write @%s:%s", a.Bot, a.server, name, a.server)
	}
	id := "@" + name + ":" + a.server
	if a.BotPassword != "" { // else it has an access token
		if err := a.botAccount(ctx, name, id); err != nil {
			return err
		}
	}
	if err := a.Homeserver.LiftRateLimit(ctx, a.token, id); err != nil {
		return fmt.Errorf("lift the limit of messages of %s: %w", id, err)
	}
	a.Say("limit of messages of %s: lifted", id)
	return nil
}

// botAccount makes the bot's account, or makes sure that it has the password of
// the configuration. That costs a login, of which homeservers allow few, so it is
// noted once it is known.
func (a *Accounts) botAccount(ctx context.Context, name, id string) error {
	sum := sha256.Sum256([]byte(id + "\x00" + a.BotPassword))
	proof := hex.EncodeToString(sum[:])
	known, err := a.Secrets.Get(proven)
	if err != nil {
		return err
	}
	_, err = a.Homeserver.Register(ctx, a.Registration, synapseadmin.Account{Name: name, Password: a.BotPassword})
	switch {
	case err == nil:
		a.Say("account %s: made, the bot", id)
	case !errors.Is(err, synapseadmin.ErrTaken):
		return registrationRefused(err)
	case a.Reset:
		if err := a.Homeserver.SetPassword(ctx, a.token, id, a.BotPassword); err != nil {
			return err
		}
		a.Say("account %s: has the password of the configuration now", id)
	case known == proof:
		a.Say("account %s: there already", id)
		return nil
	default:
		if err := a.tryBot(ctx, name, id); err != nil {
			return err
		}
		a.Say("account %s: there already, its password is right", id)
	}
	return a.Secrets.Put(proven, proof)
}

// tryBot logs in with the bot's password.
func (a *Accounts) tryBot(ctx context.Context, name, id string) error {
	s, err := a.Homeserver.Login(ctx, name, a.BotPassword, device)
	if forbidden(err) {
		return Refused(id, a.Secrets.Path(BotPassword))
	}
	if err != nil {
		return err
	}
	return a.Homeserver.Logout(ctx, s.Token)
}

// person makes the person's account. Its password's file appears only when the
// account has that password: of an account that was there before, setup knows none.
func (a *Accounts) person(ctx context.Context) error {
	name, server := split(a.Person)
	if server != a.server {
		a.Say("account %s: of another homeserver, to be invited", a.Person)
		return nil
	}
	known, err := a.Secrets.Get(PersonPassword)
	if err != nil {
		return err
	}
	if known != "" && !a.Reset {
		return a.knownPerson(ctx, name, known)
	}
	if _, err := a.Secrets.Make(PersonPassword + candidate); err != nil {
		return err
	}
	password, err := a.Secrets.Get(PersonPassword + candidate)
	if err != nil {
		return err
	}
	_, err = a.Homeserver.Register(ctx, a.Registration, synapseadmin.Account{Name: name, Password: password})
	if errors.Is(err, synapseadmin.ErrTaken) {
		return a.takenPerson(ctx, name, password)
	}
	if err != nil {
		return registrationRefused(err)
	}
	a.Say("account %s: made, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	return a.Secrets.rename(PersonPassword+candidate, PersonPassword)
}

// knownPerson makes the account anew on a homeserver that has lost it.
func (a *Accounts) knownPerson(ctx context.Context, name, password string) error {
	_, err := a.Homeserver.Register(ctx, a.Registration, synapseadmin.Account{Name: name, Password: password})
	switch {
	case err == nil:
		a.Say("account %s: made, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	case errors.Is(err, synapseadmin.ErrTaken):
		a.Say("account %s: there already", a.Person)
	default:
		return registrationRefused(err)
	}
	return nil
}

// takenPerson tells an account that an interrupted setup made from one that was
// there before.
func (a *Accounts) takenPerson(ctx context.Context, name, password string) error {
	if a.Reset {
		if err := a.Homeserver.SetPassword(ctx, a.token, a.Person, password); err != nil {
			return err
		}
	}
	s, err := a.Homeserver.Login(ctx, name, password, device)
	if forbidden(err) {
		a.Say("account %s: there already with a password of its own", a.Person)
		return a.Secrets.remove(PersonPassword + candidate)
	}
	if err != nil {
		return err
	}
	a.Say("account %s: there already, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	return errors.Join(a.Homeserver.Logout(ctx, s.Token), a.Secrets.rename(PersonPassword+candidate, PersonPassword))
}

// ErrNoRoom is returned for a room that the homeserver does not know.
var ErrNoRoom = errors.New("the homeserver does not know the room")

// Enter lets the person into the room that the bot has invited to. Who has left
// it stays outside. [ErrNoRoom] if there is none, because the homeserver has lost
// its data.
func (a *Accounts) Enter(ctx context.Context, room string) error {
	name, server := split(a.Person)
	if server != a.server {
		a.Say("room %s: %s is invited", room, a.Person)
		return nil
	}
	membership, err := a.Homeserver.Membership(ctx, a.token, room, a.Person)
	var refused *synapseadmin.Error
	if errors.As(err, &refused) && refused.Code == "M_NOT_FOUND" {
		return ErrNoRoom
	}
	if err != nil {
		return fmt.Errorf("look who is in the room %s: %w", room, err)
	}
	if membership != "invite" {
		a.Say("room %s: there already, membership of %s: %s", room, a.Person, membership)
		return nil
	}
	password, err := a.Secrets.Get(PersonPassword)
	if err != nil {
		return err
	}
	s, err := synapseadmin.Session{}, error(nil)
	if password != "" {
		s, err = a.Homeserver.Login(ctx, name, password, device)
	}
	if password == "" || forbidden(err) {
		a.Say("room %s: %s is invited; accept it in a Matrix client", room, a.Person)
		return nil
	}
	if err != nil {
		return err
	}
	err = a.Homeserver.Join(ctx, s.Token, room)
	if err == nil {
		a.Say("room %s: %s has joined", room, a.Person)
	}
	return errors.Join(err, a.Homeserver.Logout(ctx, s.Token))
}

// Refused says what to do about an account that does not take the password of
// the file.
func Refused(account, file string) error {
	return fmt.Errorf("the account %s exists already with another password: write its password to %s, or run setup once with --reset-passwords, which gives the account the one of the file", account, file)
}

func forbidden(err error) bool {
	var refused *synapseadmin.Error
	return errors.As(err, &refused) && refused.Status == http.StatusForbidden
}

// registrationRefused says what the homeserver's refusals mean to who set it up.
func registrationRefused(err error) error {
	var refused *synapseadmin.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch {
	case refused.Status == http.StatusForbidden:
		return fmt.Errorf("the registration secret is not the homeserver's: give the file that its registration_shared_secret_path names (%w)", err)
	case refused.Status == http.StatusBadRequest && strings.Contains(refused.Text, "not enabled"):
		return fmt.Errorf("the homeserver has no registration secret: set registration_shared_secret_path in its homeserver.yaml (%w)", err)
	case refused.Status == http.StatusNotFound:
		return fmt.Errorf("the homeserver has no administration API at its address: let setup reach Synapse itself, not a proxy that hides /_synapse (%w)", err)
	}
	return err
}

// split takes a Matrix ID, or its local part alone, apart.
func split(id string) (name, server string) {
	name, server, _ = strings.Cut(strings.TrimPrefix(id, "@"), ":")
	return name, server
}
