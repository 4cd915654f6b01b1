// Package oidclogin logs people in at an OpenID Connect provider: the authorization code flow with PKCE.
package oidclogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"slipway/shared/web"
)

const (
	timeout    = 15 * time.Second
	lifetime   = 10 * time.Minute // of a login that has begun
	maxName    = 200
	maxSubject = 255 // OpenID Connect Core 2
	maxGroups  = 1000
	maxAnswer  = 1 << 20 // bytes of each answer of the provider
)

// Options describe the provider.
type Options struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	Scopes       []string // in addition to openid
	NameClaim    string
	ValidName    func(string) bool // refuses names that the service can't use
	GroupsClaim  string            // "" for a service that needs no groups
	Cookie       string            // name of the cookie that holds a login that has begun
}

// Provider is an OpenID Connect provider. It is safe for concurrent use.
type Provider struct {
	o      Options
	client *http.Client
	pause  time.Duration // after a discovery that failed

	mu       sync.Mutex
	provider *oidc.Provider // nil until it was reached
	failed   error          // of the last discovery
	tried    time.Time
}

// New does no I/O: the service starts even if the provider cannot be reached.
func New(o Options) *Provider {
	client := &http.Client{
		Transport: &transport{http.DefaultTransport, strings.HasPrefix(o.Issuer, "http://")},
		Timeout:   timeout,
		// Only the configuration and the issuer's own document tell where secrets and tokens go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Provider{o: o, client: client, pause: 3 * time.Second}
}

// transport bounds what the provider answers, and speaks to it encrypted unless the issuer's own URL
// isn't.
type transport struct {
	http.RoundTripper
	plain bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !t.plain {
		return nil, errors.New("not https")
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// Person is a user of the provider.
type Person struct {
	Name       string
	Subject    string // the provider's own name of the person, which is never given to another
	Groups     []string
	MoreGroups bool // there may be others: the provider named none, too many, or some that can't be read
}

// ErrUnavailable means that the provider can't be reached, or is not one.
var ErrUnavailable = errors.New("the identity provider cannot be reached")

// RefusedError is a login that the provider or its answer doesn't allow.
type RefusedError struct {
	Reason string // for the person
	Err    error  // for the log; nil if the reason says it all
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Err != nil {
		return strings.TrimSuffix(e.Reason, ".") + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.provider != nil {
		return p.provider, nil
	}
	if time.Since(p.tried) < p.pause { // those who have waited need not wait in turns
		return nil, p.failed
	}
	// The keys of the provider are fetched later by this context.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.o.Issuer)
	if err != nil {
		p.failed, p.tried = fmt.Errorf("%w: %w", ErrUnavailable, err), time.Now()
		return nil, p.failed
	}
	p.provider = found
	return found, nil
}

func (p *Provider) config(found *oidc.Provider, callback string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: callback,
		Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...),
	}
}

// attempt is the cookie of a login that has begun: a random text, of which everything that the provider
// learns is a hash, and the page to show afterwards.
type attempt struct{ secret, next string }

func (a attempt) String() string { return a.secret + "." + url.QueryEscape(a.next) }

func parseAttempt(text string) (a attempt, ok bool) {
	secret, next, _ := strings.Cut(text, ".")
	next, err := url.QueryUnescape(next)
	return attempt{secret, next}, err == nil && secret != ""
}

// state and nonce are hashes of the cookie's secret, so neither reveals the other, nor the PKCE verifier.
func (a attempt) state() string { return oauth2.S256ChallengeFromVerifier("state " + a.secret) }
func (a attempt) nonce() string { return oauth2.S256ChallengeFromVerifier("nonce " + a.secret) }

// setCookie keeps a text in the browser for the callback, or removes it if text is "".
func (p *Provider) setCookie(w http.ResponseWriter, callback, text string) error {
	u, err := url.Parse(callback)
	if err != nil {
		return err
	}
	web.SetCookie(w, http.Cookie{Name: p.o.Cookie, Value: text, Path: path.Dir(u.Path) + "/", Expires: time.Now().Add(lifetime), Secure: u.Scheme == "https"})
	w.Header().Set("Cache-Control", "no-store")
	return nil
}

// Begin redirects a browser to the provider, which sends it back to callback, an absolute URL. The page next
// follows a login. On an error, ErrUnavailable, nothing is written.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request, callback, next string) error {
	found, err := p.discover(r.Context())
	if err != nil {
		return err
	}
	a := attempt{oauth2.GenerateVerifier(), next}
	if err := p.setCookie(w, callback, a.String()); err != nil {
		return err
	}
	http.Redirect(w, r, p.config(found, callback).AuthCodeURL(a.state(), oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.secret)), http.StatusSeeOther)
	return nil
}

// Finish completes the login of a browser that comes back to callback. It returns the person and the page to show
// next, which the browser may have changed, and removes the cookie. The error is ErrUnavailable, a *RefusedError, or that of
// admit, which if not nil is asked before the provider, and not about a login that this browser has not begun: any page can bring one.
func (p *Provider) Finish(w http.ResponseWriter, r *http.Request, callback string, admit func() error) (who Person, next string, err error) {
	var a attempt
	begun := false
	if cookie, err := r.Cookie(p.o.Cookie); err == nil {
		a, begun = parseAttempt(cookie.Value)
	}
	if err := p.setCookie(w, callback, ""); err != nil {
		return Person{}, "", err
	}
	get := r.URL.Query().Get
	if !begun || get("state") != a.state() {
		return Person{}, "", &RefusedError{Reason: "This login was not begun in this browser, or too long ago."}
	}
	if admit != nil {
		if err := admit(); err != nil {
			return Person{}, "", err
		}
	}
	if code := get("error"); code != "" {
		err := fmt.Errorf("%.100q", code)
		if text := get("error_description"); text != "" {
			err = fmt.Errorf("%w: %.300q", err, text)
		}
		return Person{}, "", &RefusedError{Reason: "The identity provider refused the login.", Err: err}
	}
	who, err = p.exchange(r.Context(), callback, a, get("code"))
	return who, a.next, err
}

// exchange returns the person whose code the provider gave.
func (p *Provider) exchange(ctx context.Context, callback string, a attempt, code string) (Person, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.config(found, callback).Exchange(ctx, code, oauth2.VerifierOption(a.secret))
	var failed *oauth2.RetrieveError
	switch {
	case errors.As(err, &failed) && failed.Response.StatusCode >= 400 && failed.Response.StatusCode < 500:
		return Person{}, &RefusedError{Reason: "The identity provider refused the login.", Err: err}
	case err != nil:
		return Person{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.VerifierContext(ctx, &oidc.Config{ClientID: p.o.ClientID}).Verify(ctx, raw)
	if err == nil && id.Nonce != a.nonce() {
		err = errors.New("the nonce is that of another login")
	}
	if err == nil && (id.Subject == "" || len(id.Subject) > maxSubject || strings.ContainsFunc(id.Subject, unicode.IsControl)) {
		err = fmt.Errorf("its subject (sub) is %.300q", id.Subject) // without one, the next owner of the name would be the same person
	}
	if err != nil {
		return Person{}, &RefusedError{Reason: "The identity provider's answer is not valid.", Err: err}
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return Person{}, &RefusedError{Reason: "The identity provider's answer is not valid.", Err: err}
	}
	if err := p.checkParty(id.Audience, claims); err != nil {
		return Person{}, &RefusedError{Reason: "The identity provider's answer is not valid.", Err: err}
	}
	if p.missing(claims) && found.UserInfoEndpoint() != "" {
		if err := addInfo(ctx, found, token, id.Subject, claims); err != nil {
			return Person{}, err
		}
	}
	who, err := p.person(claims)
	who.Subject = id.Subject
	return who, err
}

// checkParty refuses a token that was issued to another client, which may have it lawfully and use it
// here (OpenID Connect Core 3.1.3.7).
func (p *Provider) checkParty(audience []string, claims map[string]any) error {
	party, named := claims["azp"]
	switch {
	case named && party != p.o.ClientID:
		return fmt.Errorf("the token was issued to %.200q (azp)", fmt.Sprint(party))
	case !named && len(audience) > 1:
		return errors.New("the token has several audiences and doesn't name whom it was issued to (azp)")
	}
	return nil
}

// addInfo adds the claims that some providers have at the user info endpoint only. Without them
// no one may log in: a rule may deny something to a group.
func addInfo(ctx context.Context, found *oidc.Provider, token *oauth2.Token, subject string, claims map[string]any) error {
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil || info.Subject != subject {
		return &RefusedError{Reason: "The identity provider's answer is not valid.", Err: errors.Join(err, errors.New("the user info is not that of the login"))}
	}
	for key, value := range more {
		if _, ok := claims[key]; !ok {
			claims[key] = value
		}
	}
	return nil
}

func (p *Provider) missing(claims map[string]any) bool {
	return claims[p.o.NameClaim] == nil || p.o.NameClaim == "email" && claims["email_verified"] == nil || p.o.GroupsClaim != "" && claims[p.o.GroupsClaim] == nil
}

func (p *Provider) person(claims map[string]any) (Person, error) {
	value := claims[p.o.NameClaim]
	name, _ := value.(string)
	switch {
	case name == "" || len(name) > maxName || !p.o.ValidName(name):
		return Person{}, &RefusedError{Reason: "The identity provider gives you no name that can be used here.", Err: unusable(p.o.NameClaim, value)}
	case p.o.NameClaim == "email" && fmt.Sprint(claims["email_verified"]) != "true": // some write a string
		return Person{}, &RefusedError{Reason: "The identity provider has not verified your email address.", Err: unusable("email_verified", claims["email_verified"])}
	}
	who := Person{Name: name}
	who.Groups, who.MoreGroups = readGroups(claims[p.o.GroupsClaim])
	return who, nil
}

// unusable is the error about a claim that names nobody.
func unusable(claim string, value any) error {
	if value == nil {
		return fmt.Errorf("the claim %s is missing", claim)
	}
	return fmt.Errorf("the claim %s is %.200q", claim, fmt.Sprint(value))
}

// readGroups returns the groups that a claim lists; more reports whether it may lack some. A rule may
// deny something to those.
func readGroups(claim any) (groups []string, more bool) {
	list, ok := claim.([]any)
	if one, alone := claim.(string); alone {
		list, ok = []any{one}, true
	}
	for _, group := range list[:min(len(list), maxGroups)] {
		if text, ok := group.(string); ok && text != "" && len(text) <= maxName {
			groups = append(groups, text)
		}
	}
	return groups, !ok || len(groups) < len(list)
}
