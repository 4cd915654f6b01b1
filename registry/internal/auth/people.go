package auth

import (
	"context"
	"errors"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/oci"
)

// PersonPrefix begins the user name of a person of the identity provider.
const PersonPrefix = "oidc+"

const (
	// tokenStamp begins the stamps of personal access tokens, before their IDs.
	tokenStamp = "pat:"
	// loginStamp begins the stamps of people who have logged in at the identity provider, before their IDs.
	loginStamp = "login:"
)

// loginByToken returns the owner of a personal access token.
func (l *Logins) loginByToken(ctx context.Context, c credentials) (p proven, err error) {
	who := access.Caller{Kind: access.User, Name: string(c.user)}
	if name, ok := strings.CutPrefix(who.Name, PersonPrefix); ok {
		who = access.Caller{Kind: access.Person, Name: name}
	}
	token, err := l.People.Login(ctx, who.String(), string(c.password))
	if err != nil {
		return p, tokenRefusal(&who, err)
	}
	who.Only = token.Only()
	err = l.checkOwner(ctx, &who, token.Bond)
	return proven{caller: who, stamp: tokenStamp + token.ID}, err
}

// useToken sets the rights that the caller's personal access token allows now.
func (l *Logins) useToken(ctx context.Context, who *access.Caller, id string) error {
	token, err := l.People.Current(ctx, who.String(), id)
	if err != nil {
		return tokenRefusal(who, err)
	}
	who.Only = token.Only()
	return l.checkOwner(ctx, who, token.Bond)
}

// checkOwner refuses a token whose owner no longer exists or has changed, and gives a person their groups.
func (l *Logins) checkOwner(ctx context.Context, who *access.Caller, bond string) error {
	now, err := l.bond(ctx, who)
	if err == nil && (now == "" || now != bond) {
		err = &Refusal{Reason: RevokedToken, User: who.String()}
	}
	return err
}

// bond ties a personal access token to its owner as of now: to the password of a user, because nothing
// else tells a user from a later one of the same name, and to the ID of a person, who gets their groups. It
// is "" if there is nobody of that name.
func (l *Logins) bond(ctx context.Context, who *access.Caller) (string, error) {
	switch {
	case who.Kind == access.Person:
		err := l.addGroups(ctx, who)
		return who.ID, err
	case l.Htpasswd == nil:
		return "", nil
	default:
		u, err := l.Htpasswd.current(who.Name)
		return u.bond, err
	}
}

// Bond ties a personal access token to the caller, its owner.
func (a *Authorizer) Bond(ctx context.Context, who access.Caller) (string, error) {
	return a.opts.Logins.bond(ctx, &who)
}

// addGroups sets the ID and groups of a person from the last login.
func (l *Logins) addGroups(ctx context.Context, who *access.Caller) error {
	p, err := l.People.Person(ctx, who.String())
	if err != nil {
		return tokenRefusal(who, err)
	}
	who.ID, who.Groups, who.MoreGroups = p.ID, p.Groups, p.More
	return nil
}

func tokenRefusal(who *access.Caller, err error) error {
	if errors.Is(err, personal.ErrUnknown) {
		return &Refusal{Reason: RevokedToken, User: who.String()}
	}
	return &Refusal{
		Reason: TokensUnread, User: who.String(), Cause: err, RetryAfter: retryAfter,
		Err: oci.Explain(oci.CodeUnavailable, "personal access tokens cannot be checked at the moment"),
	}
}

// LogInPerson begins a session for a person that the identity provider has just named, by its own name of
// the person, too. more reports whether the person may be in other groups. Sessions, tokens and robots of
// somebody else who had the name before end.
func (a *Authorizer) LogInPerson(ctx context.Context, name, subject string, groups []string, more bool) (Session, error) {
	who := access.Caller{Kind: access.Person, Name: name}
	id, err := a.opts.Logins.People.SetGroups(ctx, who.String(), subject, groups, more)
	if err != nil {
		err = tokenRefusal(&who, err)
	}
	return Session{Kind: who.Kind, Name: name, Stamp: loginStamp + id}, err
}

// People are the personal access tokens, nil if there are none.
func (a *Authorizer) People() *personal.Tokens {
	if a.opts.Logins == nil {
		return nil
	}
	return a.opts.Logins.People
}

// LoginName is the user name with which a caller logs in.
func LoginName(c *access.Caller) string {
	if c.Kind == access.Person {
		return PersonPrefix + c.Name
	}
	return c.Name
}
