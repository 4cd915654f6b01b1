package token

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"slipway/registry/internal/cache"
)

const (
	// Leeway is by how much the clocks of issuer and registry may differ.
	Leeway = time.Minute

	// MaxSize is the size of the largest token that is accepted.
	MaxSize = 64 << 10

	maxRemembered     = 4096
	maxRememberedSize = 2 << 10 // bytes of a token
	maxScopes         = 1000
)

// Algorithms are the names of all that can be accepted, which is the default.
func Algorithms() []string {
	return []string{"EdDSA", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}
}

// ErrInvalid is the error of a token that does not count. What it wraps is for the
// log, never for the client.
var ErrInvalid = errors.New("invalid token")

var errUnknownKey = errors.New("no trusted key has the id")

// Verifier verifies tokens, and remembers those that were valid, unless they are large or
// anonymous: anyone may get any number of these.
type Verifier struct {
	issuer     string // "" = any
	audience   string
	algorithms []jose.SignatureAlgorithm
	keys       func() *Keys
	renewed    func() *Keys // nil = keys

	valid *cache.Cache[string, remembered] // by the whole token: a hash of it would cost more than everything else
}

// remembered is a token whose signature was right by some keys.
type remembered struct {
	claims *Claims
	keys   *Keys
	until  time.Time // of the certificates that vouch for the key; zero = forever
}

// VerifierOptions configures NewVerifier.
type VerifierOptions struct {
	Issuer     string // "" = any
	Audience   string
	Algorithms []string     // nil = Algorithms
	Keys       func() *Keys // those in force now; another pointer after each change
	Renewed    func() *Keys // Keys for a token of an unknown key; nil = Keys
}

// NewVerifier makes a verifier.
func NewVerifier(o VerifierOptions) *Verifier {
	v := &Verifier{issuer: o.Issuer, audience: o.Audience, keys: o.Keys, renewed: o.Renewed, valid: cache.New[string, remembered](maxRemembered)}
	if o.Algorithms == nil {
		o.Algorithms = Algorithms()
	}
	for _, a := range o.Algorithms {
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(a))
	}
	return v
}

// Verify returns what a token says if its signature, issuer, audience and time are
// right. The error wraps ErrInvalid. Nobody changes the claims: they are shared.
func (v *Verifier) Verify(raw string, now time.Time) (*Claims, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrInvalid, MaxSize)
	}
	keys := v.keys()
	known, ok := v.valid.Get(raw)
	verified := ok && known.keys == keys && (known.until.IsZero() || !now.After(known.until))
	if !verified {
		claims, until, err := v.signed(raw, keys, now)
		if errors.Is(err, errUnknownKey) && v.renewed != nil {
			if renewed := v.renewed(); renewed != keys {
				keys = renewed
				claims, until, err = v.signed(raw, keys, now)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		known = remembered{claims, keys, until}
	}
	if err := v.check(known.claims, now); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !verified && len(raw) <= maxRememberedSize && known.claims.Subject != "" {
		v.valid.Put(strings.Clone(raw), known, 1)
	}
	return known.claims, nil
}

// signed returns the claims of a token with a trusted signature, and until when the key is
// trusted; zero is forever.
func (v *Verifier) signed(raw string, keys *Keys, now time.Time) (claims *Claims, until time.Time, err error) {
	t, err := jwt.ParseSigned(raw, v.algorithms)
	if err != nil {
		return nil, until, err
	}
	if len(t.Headers) != 1 {
		return nil, until, errors.New("not exactly one signature")
	}
	public, until, err := keys.forHeader(&t.Headers[0], now)
	if err != nil {
		return nil, until, err
	}
	claims = &Claims{}
	if err := t.Claims(public, claims); err != nil {
		return nil, until, err
	}
	if len(claims.Access) > maxScopes {
		return nil, until, fmt.Errorf("more than %d access entries", maxScopes)
	}
	return claims, until, nil
}

// forHeader chooses the key, and says until when it is trusted; zero is forever. A key
// that came with the token counts only if a chain of certificates leads from it to a
// trusted one; a key id only ever names a key that is trusted already.
func (k *Keys) forHeader(h *jose.Header, now time.Time) (public any, until time.Time, err error) {
	chains, err := k.chains(h, now)
	if err != nil {
		return nil, until, err
	}
	if chains != nil {
		return chains[0][0].PublicKey, endOf(chains[0]), nil
	}
	id := h.KeyID
	if h.JSONWebKey != nil {
		if len(h.JSONWebKey.Certificates) > 0 {
			return k.certifiedKey(h.JSONWebKey, now)
		}
		id = h.JSONWebKey.KeyID
	}
	named, ok := k.byID[id]
	switch {
	case id == "" || !ok:
		return nil, until, fmt.Errorf("%w %.80q", errUnknownKey, id)
	case named.Algorithm != "" && named.Algorithm != h.Algorithm:
		return nil, until, fmt.Errorf("the key %.80q is for %s, not for %s", id, named.Algorithm, h.Algorithm)
	}
	if named.cert != nil {
		until = named.cert.NotAfter
	}
	return named.Key, until, named.checkTime(now)
}

// endOf returns the time at which the first certificate of a chain expires.
func endOf(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

func (k *Keys) options(now time.Time) x509.VerifyOptions {
	roots := k.roots
	if roots == nil {
		roots = x509.NewCertPool() // trusts nothing; nil would be those of the system
	}
	return x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
}

// chains are nil without an x5c header.
func (k *Keys) chains(h *jose.Header, now time.Time) ([][]*x509.Certificate, error) {
	chains, err := h.Certificates(k.options(now))
	switch {
	case errors.Is(err, jose.ErrMissingX5cHeader):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("certificate chain: %w", err)
	}
	return chains, nil
}

// certifiedKey is the key of a jwk header that a chain of its own vouches for.
func (k *Keys) certifiedKey(key *jose.JSONWebKey, now time.Time) (public any, until time.Time, err error) {
	options := k.options(now)
	options.Intermediates = x509.NewCertPool()
	for _, c := range key.Certificates[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := key.Certificates[0].Verify(options)
	if err != nil {
		return nil, until, fmt.Errorf("certificate chain of the jwk header: %w", err)
	}
	return key.Certificates[0].PublicKey, endOf(chains[0]), nil
}

func (v *Verifier) check(c *Claims, now time.Time) error {
	switch {
	case v.issuer != "" && c.Issuer != v.issuer:
		return fmt.Errorf("issued by %.80q", c.Issuer)
	case !slices.Contains(c.Audience, v.audience):
		return fmt.Errorf("issued for %.80q", []string(c.Audience))
	case now.After(c.Expires.Time().Add(Leeway)):
		return errors.New("expired")
	case now.Before(c.NotBefore.Time().Add(-Leeway)):
		return errors.New("not yet valid")
	}
	return nil
}
