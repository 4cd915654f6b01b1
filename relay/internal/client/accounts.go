package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	"maunium.net/go/mautrix/synapseadmin"
)

// ServerAdmin is the local part of the homeserver administrator that setup creates for itself.
const ServerAdmin = "slipway-admin"

// Accounts are the accounts that the relay needs on a homeserver.
type Accounts struct {
	Homeserver   *Homeserver
	Secrets      *Secrets
	Registration string // the homeserver's registration secret
	Bot          string // Matrix ID, or its local part
	BotPassword  string // "" if the bot has an access token
	Person       string // Matrix ID of the person invited to rooms; created if on this homeserver
	Reset        bool   // set the passwords of existing accounts to those of the files
	Say          func(format string, args ...any)

	token  string // of the homeserver's administrator
	server string // the homeserver's name
}

// Make creates the missing accounts: the homeserver's administrator, the bot, which it exempts from the rate limit, and the
// person.
func (a *Accounts) Make(ctx context.Context) error {
	if err := a.administrator(ctx); err != nil {
		return err
	}
	if err := a.bot(ctx); err != nil {
		return err
	}
	return a.person(ctx)
}

// administrator opens the homeserver administrator's session, which the other steps use.
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

// known returns the user of the stored session, or "" if there is no valid one.
func (a *Accounts) known(ctx context.Context) (id string, err error) {
	if a.token, err = a.Secrets.Get(ServerToken); a.token == "" || err != nil {
		return "", err
	}
	who, err := a.Homeserver.client(a.token).Client.Whoami(ctx)
	switch {
	case hasStatus(err, http.StatusUnauthorized):
		return "", nil
	case err != nil:
		return "", err
	}
	return who.UserID.String(), nil
}

// become registers the homeserver's administrator or logs it in.
func (a *Accounts) become(ctx context.Context) (string, error) {
	password, err := a.Secrets.Get(ServerPassword)
	if err != nil {
		return "", err
	}
	account := synapseadmin.ReqSharedSecretRegister{Username: ServerAdmin, Password: password, Admin: true}
	made, err := a.Homeserver.register(ctx, a.Registration, account)
	if err == nil {
		a.Say("account %s: created, the homeserver's administrator", made.UserID)
		a.token = made.AccessToken
		return made.UserID.String(), nil
	}
	if !errors.Is(err, mautrix.MUserInUse) {
		return "", registrationRefused(err)
	}
	if a.Reset {
		if err := a.resetAdministrator(ctx, password); err != nil {
			return "", err
		}
	}
	s, err := a.Homeserver.login(ctx, ServerAdmin, password)
	switch {
	case hasStatus(err, http.StatusForbidden):
		return "", Refused("@"+ServerAdmin, a.Secrets.Path(ServerPassword))
	case err != nil:
		return "", err
	}
	a.token = s.AccessToken
	return s.UserID.String(), nil
}

// resetAdministrator sets the administrator's password to that of the file, by means of a temporary administrator.
func (a *Accounts) resetAdministrator(ctx context.Context, password string) error {
	helper, err := a.Homeserver.register(ctx, a.Registration, throwaway())
	if err != nil {
		return registrationRefused(err)
	}
	err = a.Homeserver.setPassword(ctx, helper.AccessToken, "@"+ServerAdmin+":"+helper.UserID.Homeserver(), password)
	return errors.Join(err, a.Homeserver.client(helper.AccessToken).DeactivateAccount(ctx, helper.UserID, synapseadmin.ReqDeleteUser{Erase: true}))
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
	user := "@" + name + ":" + a.server
	if a.BotPassword != "" { // otherwise it has an access token
		if err := a.botAccount(ctx, name, user); err != nil {
			return err
		}
	}
	err := a.Homeserver.client(a.token).SetUserRatelimit(ctx, id.UserID(user), synapseadmin.ReqSetRatelimit{})
	switch {
	case errors.Is(err, mautrix.MUnrecognized):
		a.Say("limit of messages of %s: the homeserver knows none of single accounts", user)
	case err != nil:
		return fmt.Errorf("lift the limit of messages of %s: %w", user, err)
	default:
		a.Say("limit of messages of %s: lifted", user)
	}
	return nil
}

// botAccount creates the bot's account or checks that it has the configured password. A check costs a login, which homeservers
// limit, so its result is stored.
func (a *Accounts) botAccount(ctx context.Context, name, id string) error {
	sum := sha256.Sum256([]byte(id + "\x00" + a.BotPassword))
	proof := hex.EncodeToString(sum[:])
	known, err := a.Secrets.Get(proven)
	if err != nil {
		return err
	}
	_, err = a.Homeserver.register(ctx, a.Registration, synapseadmin.ReqSharedSecretRegister{Username: name, Password: a.BotPassword})
	switch {
	case err == nil:
		a.Say("account %s: created, the bot", id)
	case !errors.Is(err, mautrix.MUserInUse):
		return registrationRefused(err)
	case a.Reset:
		if err := a.Homeserver.setPassword(ctx, a.token, id, a.BotPassword); err != nil {
			return err
		}
		a.Say("account %s: has the password of the configuration now", id)
	case known == proof:
		a.Say("account %s: already exists", id)
		return nil
	default:
		if err := a.tryBot(ctx, name, id); err != nil {
			return err
		}
		a.Say("account %s: already exists, its password is right", id)
	}
	return a.Secrets.Put(proven, proof)
}

// tryBot logs in with the bot's password and out again.
func (a *Accounts) tryBot(ctx context.Context, name, id string) error {
	s, err := a.Homeserver.login(ctx, name, a.BotPassword)
	if hasStatus(err, http.StatusForbidden) {
		return Refused(id, a.Secrets.Path(BotPassword))
	}
	if err != nil {
		return err
	}
	return a.Homeserver.logout(ctx, s.AccessToken)
}

// person creates the person's account. The password file appears only once the account has that password, so an account that
// existed before has no file.
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
	_, err = a.Homeserver.register(ctx, a.Registration, synapseadmin.ReqSharedSecretRegister{Username: name, Password: password})
	if errors.Is(err, mautrix.MUserInUse) {
		return a.takenPerson(ctx, name, password)
	}
	if err != nil {
		return registrationRefused(err)
	}
	a.Say("account %s: created, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	return a.Secrets.rename(PersonPassword+candidate, PersonPassword)
}

// knownPerson creates the account again on a homeserver that lost it.
func (a *Accounts) knownPerson(ctx context.Context, name, password string) error {
	_, err := a.Homeserver.register(ctx, a.Registration, synapseadmin.ReqSharedSecretRegister{Username: name, Password: password})
	switch {
	case err == nil:
		a.Say("account %s: created, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	case errors.Is(err, mautrix.MUserInUse):
		a.Say("account %s: already exists", a.Person)
	default:
		return registrationRefused(err)
	}
	return nil
}

// takenPerson distinguishes an account of an interrupted setup from one that existed before.
func (a *Accounts) takenPerson(ctx context.Context, name, password string) error {
	if a.Reset {
		if err := a.Homeserver.setPassword(ctx, a.token, a.Person, password); err != nil {
			return err
		}
	}
	s, err := a.Homeserver.login(ctx, name, password)
	if loginRefused(err) {
		a.Say("account %s: already exists with a password of its own", a.Person)
		return a.Secrets.remove(PersonPassword + candidate)
	}
	if err != nil {
		return err
	}
	a.Say("account %s: already exists, its password is in %s", a.Person, a.Secrets.Path(PersonPassword))
	return errors.Join(a.Homeserver.logout(ctx, s.AccessToken), a.Secrets.rename(PersonPassword+candidate, PersonPassword))
}

// ErrNoRoom reports a room that the homeserver does not know.
var ErrNoRoom = errors.New("the homeserver does not know the room")

// Enter joins the person to the room that the bot invited to. A person who left it stays outside. It returns [ErrNoRoom] if the
// homeserver lost its data.
func (a *Accounts) Enter(ctx context.Context, room string) error {
	name, server := split(a.Person)
	if server != a.server {
		a.Say("room %s: %s is invited", room, a.Person)
		return nil
	}
	membership, err := a.Homeserver.membership(ctx, a.token, room, a.Person)
	switch {
	case errors.Is(err, mautrix.MNotFound):
		return ErrNoRoom
	case errors.Is(err, mautrix.MUnrecognized): // Dendrite doesn't tell; another join changes nothing
		membership = event.MembershipInvite
	case err != nil:
		return fmt.Errorf("read the members of the room %s: %w", room, err)
	}
	if membership != event.MembershipInvite {
		a.Say("room %s: already exists, membership of %s: %s", room, a.Person, membership)
		return nil
	}
	password, err := a.Secrets.Get(PersonPassword)
	if err != nil {
		return err
	}
	var s *mautrix.RespLogin
	if password != "" {
		s, err = a.Homeserver.login(ctx, name, password)
	}
	if password == "" || loginRefused(err) {
		a.Say("room %s: %s is invited; accept it in a Matrix client", room, a.Person)
		return nil
	}
	if err != nil {
		return err
	}
	_, err = a.Homeserver.client(s.AccessToken).Client.JoinRoom(ctx, room, nil)
	switch {
	case err == nil:
		a.Say("room %s: %s has joined", room, a.Person)
	case errors.Is(err, mautrix.MForbidden): // it left
		a.Say("room %s: %s is not invited", room, a.Person)
		err = nil
	}
	return errors.Join(err, a.Homeserver.logout(ctx, s.AccessToken))
}

// Refused returns the error of an account that rejects the file's password.
func Refused(account, file string) error {
	return fmt.Errorf("the account %s exists already with another password: write its password to %s, or run setup once with --reset-passwords, which gives the account the one of the file", account, file)
}

// hasStatus reports whether err is an answer of the homeserver with an HTTP status.
func hasStatus(err error, status int) bool {
	var refused mautrix.HTTPError
	return errors.As(err, &refused) && refused.IsStatus(status)
}

// loginRefused reports whether the homeserver refuses a login: the password is wrong, or it has no login with a password.
func loginRefused(err error) bool {
	return hasStatus(err, http.StatusForbidden) || hasStatus(err, http.StatusBadRequest) || errors.Is(err, mautrix.MUnrecognized)
}

// registrationRefused explains the homeserver's refusals to its operator.
func registrationRefused(err error) error {
	switch {
	case hasStatus(err, http.StatusForbidden):
		return fmt.Errorf("the registration secret is not the homeserver's: give the file that its registration_shared_secret_path names (%w)", err)
	case hasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "not enabled"):
		return fmt.Errorf("the homeserver has no registration secret: set registration_shared_secret_path in its homeserver.yaml (%w)", err)
	case hasStatus(err, http.StatusNotFound):
		return fmt.Errorf("the homeserver has no administration API at its address: let setup reach Synapse itself, not a proxy that hides /_synapse (%w)", err)
	}
	return err
}

// split splits a Matrix ID, or a local part alone.
func split(id string) (name, server string) {
	name, server, _ = strings.Cut(strings.TrimPrefix(id, "@"), ":")
	return name, server
}
