package auth

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
)

// Options are the ways to prove an identity, and the rules.
type Options struct {
	// Rules returns the rules in force; another pointer after each change.
	Rules func() *access.Rules

	Logins *Logins // nil = logging in with a name and a secret is not possible
	Tokens Tokens  // nil = no bearer tokens

	// Realm names the registry in the challenge to log in with Basic. With TokenRealm,
	// the URL of a token service, clients are sent there instead.
	Realm      string
	TokenRealm func(*http.Request) string
	Service    string

	// Certificates lets clients be known by their verified certificates, where a rule
	// names them.
	Certificates bool
}

// Tokens verifies bearer tokens.
type Tokens interface {
	// Authenticate returns who a token was issued for, and what it says. The error is
	// a *Refusal.
	Authenticate(raw string) (access.Caller, *token.Claims, error)
}

// Authorizer is the one place where it is decided whether a request may pass.
type Authorizer struct {
	opts      Options
	challenge challenge
}

// NewAuthorizer makes an authorizer.
func NewAuthorizer(o Options) *Authorizer {
	a := &Authorizer{opts: o, challenge: challenge{realm: o.TokenRealm, service: o.Service}}
	if o.TokenRealm == nil && o.Logins != nil {
		a.challenge.basic = "Basic realm=" + strconv.Quote(o.Realm)
	}
	return a
}

// Authorize decides on a request. The error is a *Refusal, or the context's when
// the client hung up while it waited. The grant names the caller who was proven.
func (a *Authorizer) Authorize(r *http.Request, want Access) (Grant, error) {
	g := Grant{rules: a.opts.Rules()}
	err := a.identify(r, &g)
	if err != nil {
		g.Caller = access.Caller{} // what was not proven
		return g, a.complete(r, want, err)
	}
	if g.Caller.Kind != access.Anonymous {
		g.User = g.Caller.String()
	}
	if reason := a.refuse(&g, want); reason != "" {
		return g, a.complete(r, want, &Refusal{Reason: reason, User: g.User})
	}
	return g, nil
}

// Confirm decides again on a request that was let in, by the rules and credentials of
// now: a long body may have outlived them. A token that has expired meanwhile still
// counts. The error is a *Refusal.
func (a *Authorizer) Confirm(r *http.Request, g *Grant, want Access) error {
	now := *g
	now.rules = a.opts.Rules()
	stamp := g.stamp
	if g.token != nil && g.token.Own != nil {
		stamp = g.token.Own.Stamp
	}
	switch {
	case stamp != "":
		who, err := a.opts.Logins.current(g.Caller.Kind, g.Caller.Name, stamp)
		if err != nil {
			return a.complete(r, want, err)
		}
		who.Bearer = g.Caller.Bearer
		now.Caller = who
	case g.Caller.Kind == access.Certificate && !now.rules.Knows(&g.Caller):
		now.Caller = access.Caller{}
	}
	if reason := a.refuse(&now, want); reason != "" {
		return a.complete(r, want, &Refusal{Reason: reason, User: now.User})
	}
	*g = now
	return nil
}

// identify finds out who sends the request.
func (a *Authorizer) identify(r *http.Request, g *Grant) error {
	values := r.Header["Authorization"]
	if len(values) == 0 || a.opts.Logins == nil && a.opts.Tokens == nil { // without logins, old credentials mean nothing
		a.identifyCertificate(r, g)
		return nil
	}
	scheme, raw, _ := strings.Cut(values[0], " ")
	switch {
	case a.opts.Tokens != nil && strings.EqualFold(scheme, "Bearer"):
		var err error
		g.Caller, g.token, err = a.opts.Tokens.Authenticate(strings.Trim(raw, " "))
		g.Caller.Bearer = err == nil
		return err
	case a.opts.Logins == nil:
		return &Refusal{Reason: NoCredentials} // distribution treats a Basic header so where tokens are required
	}
	var room [192]byte
	c, ok := parseBasic(values[0], room[:])
	if !ok {
		return &Refusal{Reason: BadHeader}
	}
	if c.none() {
		a.identifyCertificate(r, g)
		return nil
	}
	p, err := a.opts.Logins.login(r, c)
	if err == nil {
		g.Caller, g.stamp, g.Fresh = p.caller, p.stamp, p.fresh
	}
	return err
}

// identifyCertificate knows clients by certificates that rules name. Others stay
// anonymous, so that they can still log in.
func (a *Authorizer) identifyCertificate(r *http.Request, g *Grant) {
	if !a.opts.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return
	}
	cert := r.TLS.VerifiedChains[0][0]
	names := append([]string{cert.Subject.CommonName}, cert.DNSNames...)
	for _, name := range names {
		if c := (access.Caller{Kind: access.Certificate, Name: name}); name != "" && g.rules.Knows(&c) {
			g.Caller = c
			return
		}
	}
}

// refuse returns why the caller may not do that, "" if they may.
func (a *Authorizer) refuse(g *Grant, want Access) Reason {
	canLogIn := a.challenge.basic != "" || a.challenge.realm != nil
	known := g.Caller.Kind != access.Anonymous || g.token != nil
	allowed := g.rules.May(&g.Caller, want.rights(), want.Repository)
	switch want.Action {
	case Ping:
		allowed = known || !canLogIn
	case Catalog:
		allowed = g.rules.Lists(&g.Caller)
	case Administer:
		allowed = g.rules.AdministersAny(&g.Caller)
	}
	// Clients send a login only when asked. Where there is a token service, one without a
	// login gets an anonymous token, and with it the catalog that anyone may see.
	if want.Action == Catalog && !known && canLogIn {
		if _, own := a.opts.Tokens.(*Service); own || g.rules.ListsMore() {
			return NoCredentials
		}
	}
	switch {
	case !allowed && !known:
		return NoCredentials
	case !allowed && g.Caller.Kind == access.Anonymous:
		return NarrowToken // logging in may help
	case !allowed:
		return Forbidden
	}
	// A source that may not be read is no reason to refuse: the registry answers as if
	// it did not have the blob, and the client uploads it.
	if want.From != "" && !g.rules.May(&g.Caller, access.Pull, want.From) {
		want.From = ""
	}
	if !want.covered(g.token) {
		return NarrowToken
	}
	return ""
}

// complete adds to a refusal what the client is told.
func (a *Authorizer) complete(r *http.Request, want Access, err error) error {
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Err != nil {
		return err
	}
	failure := ""
	switch refusal.Reason {
	case BadToken, RevokedToken, MakerGone:
		failure = "invalid_token"
	case NarrowToken:
		failure = "insufficient_scope"
	}
	refusal.Challenge = a.challenge.value(r, want, failure)
	if refusal.Reason == Forbidden || refusal.Challenge == "" {
		refusal.Challenge = ""
		// Docker's engine tries an upload again for most of a minute after an error
		// without a detail.
		refusal.Err = oci.NewError(oci.CodeDenied, want.records())
	} else {
		told := oci.NewError(oci.CodeUnauthorized, want.records())
		if slices.Contains([]Reason{UnknownUser, DisabledUser, WrongPassword, RevokedToken, UnknownRobot}, refusal.Reason) {
			told.Message = wrongCredentials
		}
		refusal.Err = told
	}
	return refusal
}
