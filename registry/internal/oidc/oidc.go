// Package oidc verifies the identity tokens that CI systems give their pipelines. The
// keys of an issuer are fetched from it when they are needed, within bounds.
package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"slipway/registry/internal/token"
)

const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20

	// keepKeys is how long keys are taken without asking again, and minPause the time
	// between two fetches of one issuer, whatever is asked.
	keepKeys = time.Hour
	minPause = 10 * time.Second
)

// ErrUnavailable means that the keys of an issuer cannot be fetched.
var ErrUnavailable = errors.New("the issuer's keys cannot be fetched")

// algorithms are those of public keys: an issuer's keys are known to everybody.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Token is a verified token.
type Token struct {
	Issuer   string
	Subject  string
	Audience token.Audience
	claims   map[string]any
}

// For says whether the token is for that audience.
func (t *Token) For(audience string) bool { return slices.Contains(t.Audience, audience) }

// Text is a claim that is a text, a number or a truth value.
func (t *Token) Text(claim string) (string, bool) {
	switch v := t.claims[claim].(type) {
	case string:
		return v, true
	case bool, float64, json.Number:
		return fmt.Sprint(v), true
	default:
		return "", false
	}
}

// Issuers verifies tokens of some issuers and of nobody else.
type Issuers struct {
	client *http.Client
	known  map[string]*issuer
}

type issuer struct {
	url string

	asking sync.Mutex // held while keys are fetched
	tried  time.Time  // last, under asking

	mu      sync.Mutex // held for moments
	keys    *jose.JSONWebKeySet
	fetched time.Time
}

// NewIssuers fetches nothing yet.
func NewIssuers(urls []string) *Issuers {
	i := &Issuers{known: map[string]*issuer{}, client: &http.Client{
		Timeout: fetchTimeout,
		// The keys are where the issuer says; nobody else sends the registry anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, url := range urls {
		i.known[url] = &issuer{url: url}
	}
	return i
}

// Verify returns what a token says if an issuer of the list has signed it and it is
// valid now. It fetches keys only for the issuers of the list.
func (i *Issuers) Verify(ctx context.Context, raw string, now time.Time) (*Token, error) {
	if len(raw) > token.MaxSize {
		return nil, errors.New("the token is too large")
	}
	parsed, err := jwt.ParseSigned(raw, algorithms)
	if err != nil {
		return nil, err
	}
	var unverified jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&unverified); err != nil {
		return nil, err
	}
	from, ok := i.known[unverified.Issuer]
	if !ok {
		return nil, fmt.Errorf("the issuer %.200q is not in the list", unverified.Issuer)
	}
	key, err := from.key(ctx, i.client, parsed.Headers[0], now)
	if err != nil {
		return nil, err
	}
	var standard jwt.Claims
	t := &Token{Issuer: from.url}
	if err := parsed.Claims(key, &standard, &t.claims); err != nil {
		return nil, err
	}
	if standard.Expiry == nil {
		return nil, errors.New("the token never expires")
	}
	if err := standard.ValidateWithLeeway(jwt.Expected{Issuer: from.url, Time: now}, token.Leeway); err != nil {
		return nil, err
	}
	t.Subject, t.Audience = standard.Subject, token.Audience(standard.Audience)
	return t, nil
}

// key returns the issuer's key that a header names. Whoever brings a key that is known
// does not wait for a fetch that somebody with another one has caused.
func (i *issuer) key(ctx context.Context, client *http.Client, h jose.Header, now time.Time) (any, error) {
	key, fetched := i.find(h)
	if key != nil && now.Sub(fetched) < keepKeys {
		return key, nil
	}
	if key == nil {
		i.asking.Lock()
	} else if !i.asking.TryLock() {
		return key, nil
	}
	defer i.asking.Unlock()
	if now.Sub(i.tried) >= minPause {
		i.tried = now
		keys, err := fetch(ctx, client, i.url)
		switch {
		case err == nil:
			i.take(keys, now)
		case key == nil:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	switch key, fetched = i.find(h); {
	case key != nil:
		return key, nil // also if the issuer cannot be asked now
	case fetched.IsZero():
		return nil, ErrUnavailable
	default:
		return nil, fmt.Errorf("the issuer has no key %.80q for %s", h.KeyID, h.Algorithm)
	}
}

func (i *issuer) take(keys *jose.JSONWebKeySet, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.fetched = keys, now
}

// find returns the key that a header names, nil if it is not known, and when keys were
// fetched.
func (i *issuer) find(h jose.Header) (key any, fetched time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys == nil || h.KeyID == "" {
		return nil, i.fetched
	}
	for _, k := range i.keys.Key(h.KeyID) {
		if k.IsPublic() && k.Use != "enc" && (k.Algorithm == "" || k.Algorithm == h.Algorithm) {
			return k.Key, i.fetched
		}
	}
	return nil, i.fetched
}

// fetch reads the issuer's configuration and its keys.
func fetch(ctx context.Context, client *http.Client, url string) (*jose.JSONWebKeySet, error) {
	// Others wait for the keys, too, also if this client hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	var configuration struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := fetchJSON(ctx, client, strings.TrimSuffix(url, "/")+"/.well-known/openid-configuration", &configuration); err != nil {
		return nil, err
	}
	if configuration.Issuer != url {
		return nil, fmt.Errorf("%s calls itself %.200q", url, configuration.Issuer)
	}
	if !strings.HasPrefix(configuration.KeysURL, "https://") && !strings.HasPrefix(url, "http://") {
		return nil, fmt.Errorf("%s has its keys at %.200q, which is not https", url, configuration.KeysURL)
	}
	keys := &jose.JSONWebKeySet{}
	return keys, fetchJSON(ctx, client, configuration.KeysURL, keys)
}

func fetchJSON(ctx context.Context, client *http.Client, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return err
	}
	if len(body) > maxDocument {
		return fmt.Errorf("%s answers with more than %d bytes", url, maxDocument)
	}
	return json.Unmarshal(body, into)
}
