package auth

import (
	"context"
	"errors"
	"strings"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/oci"
)

// PersonPrefix begins the user name of a person of the identity provider.
const PersonPrefix = "oidc+"

const (
	// tokenStamp begins the stamps of personal access tokens, before their IDs.
	tokenStamp = "pat:"
	// loginStamp is the stamp of people who have logged in at the identity provider.
	loginStamp = "login"

	lookTimeout = 5 * time.Second
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
	err = l.checkOwner(ctx, &who)
	return proven{caller: who, stamp: tokenStamp + token.ID}, err
}

// useToken gives who what a token of theirs allows now.
func (l *Logins) useToken(ctx context.Context, who *access.Caller, id string) error {
	token, err := l.People.Current(ctx, who.String(), id)
	if err != nil {
		return tokenRefusal(who, err)
	}
	who.Only = token.Only()
	return l.checkOwner(ctx, who)
}

// checkOwner refuses a token whose owner no longer exists, and gives a person their groups.
func (l *Logins) checkOwner(ctx context.Context, who *access.Caller) error {
	if who.Kind == access.Person {
		return l.addGroups(ctx, who)
	}
	if l.Htpasswd == nil {
		return &Refusal{Reason: RevokedToken, User: who.String()}
	}
	stamp, err := l.Htpasswd.stamp(who.Name)
	if err == nil && stamp == "" {
		err = &Refusal{Reason: RevokedToken, User: who.String()}
	}
	return err
}

// addGroups gives a person the groups of the last login.
func (l *Logins) addGroups(ctx context.Context, who *access.Caller) (err error) {
	if who.Groups, who.MoreGroups, err = l.People.Groups(ctx, who.String()); err != nil {
		return tokenRefusal(who, err)
	}
	return nil
}

func tokenRefusal(who *access.Caller, err error) error {
	if errors.Is(err, personal.ErrUnknown) {
		return &Refusal{Reason: RevokedToken, User: who.String()}
	}
	return &Refusal{
		Reason: TokensUnread, User: who.String(), Cause: err, RetryAfter: retryAfter,
		Err: oci.NewError(oci.CodeUnavailable, "personal access tokens cannot be checked at the moment"),
	}
}

// LogInPerson begins a session for a person that the identity provider has just named. more reports
// whether the person may be in other groups, too.
func (a *Authorizer) LogInPerson(ctx context.Context, name string, groups []string, more bool) (Session, error) {
	who := access.Caller{Kind: access.Person, Name: name}
	return Session{Kind: who.Kind, Name: name, Stamp: loginStamp}, a.opts.Logins.People.SetGroups(ctx, who.String(), groups, more)
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
