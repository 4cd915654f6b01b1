package auth

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
)

const (
	issuer = "slipway"

	// refreshAudience is added to the service's name in refresh tokens, so that none is
	// taken for an access token.
	refreshAudience = "/refresh"

	// workloadRefresh is the time for which a pipeline may refresh its login after its OIDC token has expired.
	workloadRefresh = time.Hour
)

// ServiceOptions configures NewService.
type ServiceOptions struct {
	Rules  func() *access.Rules // those in force
	Logins *Logins
	Keys   *keyring.Ring

	Service         string // the name of the registry in tokens
	Lifetime        time.Duration
	RefreshLifetime time.Duration
}

// Service issues tokens and verifies them. A token names its bearer and what
// it was issued for; what the bearer may do is decided at each request, so a
// revoked credential or a changed rule takes effect immediately.
type Service struct {
	opts            ServiceOptions
	access, refresh *token.Verifier
}

// NewService makes a service.
func NewService(o ServiceOptions) *Service {
	verifier := func(audience string) *token.Verifier {
		return token.NewVerifier(token.VerifierOptions{Issuer: issuer, Audience: audience, Algorithms: []string{"EdDSA"}, Keys: o.Keys.Trusted, Renewed: o.Keys.Renewed})
	}
	return &Service{opts: o, access: verifier(o.Service), refresh: verifier(o.Service + refreshAudience)}
}

// TokenRequest is a request for a token. A client that sends neither a refresh
// token nor credentials, there or in the Authorization header, is anonymous.
type TokenRequest struct {
	Service string   // "" = this one
	Scopes  []string // as the client wrote them
	Offline bool     // a refresh token is wanted as well
	Refresh string   // a refresh token

	Password     bool // User and Secret are given
	User, Secret string
}

// Issued is a token that was given out.
type Issued struct {
	Token    string
	Refresh  string // "" if none was asked for
	Scope    string // what was granted
	At       time.Time
	Lifetime time.Duration
	User     string // "" is anonymous
	Fresh    bool   // the credential was just checked
}

// holder is whom a token is issued to.
type holder struct {
	caller access.Caller
	stamp  string
	fresh  bool
	until  time.Time // of a refresh token that is used, the end of it
}

// Issue issues a token for the part of the requested access that the caller has. The error
// is a *Refusal, an *oci.Error, or the context's.
func (s *Service) Issue(r *http.Request, q TokenRequest) (Issued, error) {
	if q.Service != "" && q.Service != s.opts.Service {
		return Issued{}, oci.Explain(oci.CodeUnsupported, "this service gives out tokens for "+strconv.Quote(s.opts.Service))
	}
	h, err := s.identify(r, q)
	if err != nil {
		return Issued{}, s.complete(err)
	}
	now := time.Now()
	granted := allowed(s.opts.Rules(), &h.caller, parseScopes(q.Scopes))
	out := Issued{Scope: scopeText(granted), At: now, Lifetime: s.opts.Lifetime, Fresh: h.fresh}
	if h.caller.Kind != access.Anonymous {
		out.User = h.caller.String()
	}
	if out.Token, err = s.sign(&h, s.opts.Service, granted, now, now.Add(s.opts.Lifetime)); err != nil {
		return Issued{}, err
	}
	if q.Offline && h.caller.Kind != access.Anonymous {
		out.Refresh, err = s.sign(&h, s.opts.Service+refreshAudience, nil, now, s.refreshUntil(&h, now))
	}
	return out, err
}

// refreshUntil is the end of a new refresh token. One that replaces another does not
// outlive it.
func (s *Service) refreshUntil(h *holder, now time.Time) time.Time {
	switch {
	case !h.until.IsZero():
		return h.until
	case h.caller.Kind == access.Workload:
		return now.Add(workloadRefresh)
	default:
		return now.Add(s.opts.RefreshLifetime)
	}
}

func (s *Service) sign(h *holder, audience string, scopes []token.Scope, now, until time.Time) (string, error) {
	return s.opts.Keys.Sign(&token.Claims{
		Issuer: issuer, Subject: h.caller.Name, Audience: token.Audience{audience},
		Expires: token.At(until), NotBefore: token.At(now), IssuedAt: token.At(now), Access: scopes,
		Own: &token.Own{Kind: h.caller.Kind.String(), Stamp: h.stamp},
	})
}

// identify finds out who wants a token.
func (s *Service) identify(r *http.Request, q TokenRequest) (holder, error) {
	if q.Refresh != "" {
		claims, err := s.refresh.Verify(q.Refresh, time.Now())
		if err != nil || claims.Own == nil {
			return holder{}, &Refusal{Reason: BadToken, Cause: err}
		}
		who, err := s.opts.Logins.current(access.ParseKind(claims.Own.Kind), claims.Subject, claims.Own.Stamp)
		return holder{caller: who, stamp: claims.Own.Stamp, until: claims.Expires.Time()}, err
	}
	var room [192]byte
	c := credentials{[]byte(q.User), []byte(q.Secret)}
	if values := r.Header["Authorization"]; !q.Password && len(values) > 0 {
		var ok bool
		if c, ok = parseLongBasic(values[0], room[:]); !ok {
			return holder{}, &Refusal{Reason: BadHeader}
		}
	}
	if c.none() {
		return holder{}, nil
	}
	if s.opts.Logins.Workloads.any() && string(c.user) == WorkloadUser {
		who, stamp, err := s.opts.Logins.Workloads.login(r.Context(), string(c.password))
		return holder{caller: who, stamp: stamp, fresh: true}, err
	}
	if len(c.user)+len(c.password) > maxCredentials {
		return holder{}, &Refusal{Reason: BadHeader}
	}
	p, err := s.opts.Logins.login(r, c)
	if err != nil {
		return holder{}, err
	}
	return holder{caller: p.caller, stamp: p.stamp, fresh: p.fresh}, nil
}

const wrongCredentials = "wrong name or password, or it was revoked or has expired"

// complete adds to a refusal what the client is told.
func (s *Service) complete(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Err == nil {
		refusal.Challenge = "Basic realm=" + strconv.Quote(s.opts.Service)
		// Without a detail, Docker's engine would ask again for most of a minute.
		refusal.Err = oci.Explain(oci.CodeUnauthorized, wrongCredentials)
	}
	return err
}

// Authenticate implements Tokens.
func (s *Service) Authenticate(raw string) (access.Caller, *token.Claims, error) {
	claims, err := s.access.Verify(raw, time.Now())
	if err != nil || claims.Own == nil {
		return access.Caller{}, nil, &Refusal{Reason: BadToken, Cause: err}
	}
	kind := access.ParseKind(claims.Own.Kind)
	if kind == access.Anonymous {
		return access.Caller{}, claims, nil
	}
	who, err := s.opts.Logins.current(kind, claims.Subject, claims.Own.Stamp)
	return who, claims, err
}
