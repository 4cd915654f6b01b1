// Package oidc verifies the identity tokens that CI systems give their pipelines. It fetches
// the keys of an issuer when a token needs them, within bounds.
package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/time/rate"

	"slipway/registry/internal/identity/token"
)

const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20

	// An issuer's keys are forgotten after keepKeys, in case it has withdrawn one. Of one
	// issuer two documents are fetched in minPause, however many tokens have unknown keys.
	keepKeys = time.Hour
	minPause = 10 * time.Second
)

// ErrUnavailable means that the keys of an issuer cannot be fetched.
var ErrUnavailable = errors.New("the issuer's keys cannot be fetched")

var errPaused = errors.New("the issuer was asked a moment ago")

// algorithms are those of public keys: an issuer's keys are known to everybody.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

func algorithmNames() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// Token is a verified token.
type Token struct {
	Issuer   string
	Subject  string
	Audience []string
	claims   map[string]any
}

// For reports whether the token is for that audience.
func (t *Token) For(audience string) bool { return slices.Contains(t.Audience, audience) }

// Text returns a claim that is a string, a boolean or a number, which is as the token writes it.
func (t *Token) Text(claim string) (string, bool) {
	switch v := t.claims[claim].(type) {
	case string:
		return v, true
	case bool, json.Number:
		return fmt.Sprint(v), true
	default:
		return "", false
	}
}

// Issuers verifies tokens of a list of issuers.
type Issuers struct{ known map[string]*issuer }

// NewIssuers fetches nothing yet.
func NewIssuers(urls []string) *Issuers {
	i := &Issuers{known: map[string]*issuer{}}
	for _, url := range urls {
		i.known[url] = &issuer{url: url, fetch: &transport{
			RoundTripper: http.DefaultTransport,
			plain:        strings.HasPrefix(url, "http://"),
			limit:        rate.NewLimiter(rate.Every(minPause/2), 2),
		}}
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
	known, err := from.provider(now)
	if err != nil {
		return nil, err
	}
	keys := &keySet{KeySet: known.keys}
	verified, err := oidc.NewVerifier(from.url, keys, &oidc.Config{
		SkipClientIDCheck:    true, // each rule has an audience
		SupportedSigningAlgs: algorithmNames(),
		Now:                  func() time.Time { return now.Add(-token.Leeway) },
	}).Verify(ctx, raw)
	if failed := (*url.Error)(nil); errors.As(keys.err, &failed) && (!known.fetched.Load() || !errors.Is(failed, errPaused)) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, keys.err)
	}
	if err != nil {
		return nil, err
	}
	known.fetched.Store(true)
	t := &Token{Issuer: from.url, Subject: verified.Subject, Audience: verified.Audience}
	var payload json.RawMessage
	if err := verified.Claims(&payload); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // a float would write 12345678 as 1.2345678e+07
	return t, decoder.Decode(&t.claims)
}

// keySet keeps the error of one verification, which the verifier doesn't wrap.
type keySet struct {
	oidc.KeySet
	err error
}

func (k *keySet) VerifySignature(ctx context.Context, raw string) (payload []byte, err error) {
	payload, k.err = k.KeySet.VerifySignature(ctx, raw)
	return payload, k.err
}

type issuer struct {
	url   string
	fetch *transport
	known atomic.Pointer[provider]

	asking   sync.Mutex // held while the configuration is fetched
	failed   error      // of the last fetch, while nothing is known
	failedAt time.Time
}

type provider struct {
	keys    *oidc.RemoteKeySet
	at      time.Time
	fetched atomic.Bool // the keys, at least once
}

// provider returns what is known of the issuer. It is forgotten after keepKeys, unless the
// issuer can't be asked. Only one caller asks at a time; the others don't wait if they know enough.
func (i *issuer) provider(now time.Time) (*provider, error) {
	known := i.known.Load()
	switch {
	case known == nil:
		i.asking.Lock()
	case now.Sub(known.at) < keepKeys || !i.asking.TryLock():
		return known, nil
	}
	defer i.asking.Unlock()
	if newer := i.known.Load(); newer != known {
		return newer, nil
	}
	if known == nil && i.failed != nil && now.Before(i.failedAt.Add(minPause)) { // callers that have waited don't each wait again
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, i.failed)
	}
	client := &http.Client{
		Transport: i.fetch,
		Timeout:   fetchTimeout,
		// Only the issuer tells the registry where its keys are.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx := oidc.ClientContext(context.Background(), client) // other tokens need the keys even if this client hangs up
	found, err := oidc.NewProvider(ctx, i.url)
	var configuration struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err == nil {
		err = found.Claims(&configuration)
	}
	switch {
	case err == nil:
		known = &provider{keys: oidc.NewRemoteKeySet(ctx, configuration.KeysURL), at: now}
		i.known.Store(known)
	case known == nil:
		i.failed, i.failedAt = err, now
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return known, nil
}

// transport fetches an issuer's documents: not too often, not too large, and encrypted unless
// the issuer's own URL isn't.
type transport struct {
	http.RoundTripper
	plain bool
	limit *rate.Limiter
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme != "https" && !t.plain:
		return nil, errors.New("not https")
	case !t.limit.Allow():
		return nil, errPaused
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the issuer answers %s", resp.Status)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxDocument)
	return resp, nil
}
