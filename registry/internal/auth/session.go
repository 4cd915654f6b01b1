package auth

import (
	"net/http"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
)

// Session identifies a caller that has logged in. The pages keep it in a signed cookie.
type Session struct {
	Kind  access.Kind
	Name  string
	Stamp string // ends the session when the credential changes
}

// CanLogIn reports whether there are users who can log in with a password.
func (a *Authorizer) CanLogIn() bool { return a.opts.Logins != nil && a.opts.Logins.Htpasswd != nil }

// LogIn begins a session for a user of the password file. Guesses are slowed down as those
// of clients. The error is a *Refusal, or the context's.
func (a *Authorizer) LogIn(r *http.Request, user, password string) (Session, error) {
	c := credentials{[]byte(user), []byte(password)}
	if !a.CanLogIn() || c.none() {
		return Session{}, &Refusal{Reason: UnknownUser, User: user, Err: oci.NewError(oci.CodeUnauthorized, nil)}
	}
	u, _, err := a.opts.Logins.Htpasswd.login(r, c)
	return Session{Kind: access.User, Name: u.name, Stamp: u.stamp}, err
}

// Resume returns what the holder of a session may do by the rules and credentials of now, or,
// for the zero session, a client without one. The error is a *Refusal if the session has ended.
func (a *Authorizer) Resume(r *http.Request, s Session) (Grant, error) {
	g := Grant{rules: a.opts.Rules()}
	if s.Kind == access.Anonymous {
		a.identifyCertificate(r, &g)
	} else {
		if a.opts.Logins == nil {
			return g, &Refusal{Reason: RevokedToken, User: s.Name}
		}
		who, err := a.opts.Logins.current(s.Kind, s.Name, s.Stamp)
		if err != nil {
			return g, err
		}
		g.Caller, g.stamp = who, s.Stamp
	}
	if g.Caller.Kind != access.Anonymous {
		g.User = g.Caller.String()
	}
	return g, nil
}
