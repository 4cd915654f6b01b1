package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"slipway/registry/internal/oci"
)

// challenge is what a registry asks for: a password, or a token of a realm.
type challenge struct {
	basic   bool
	realm   *url.URL
	service string
}

// challenged reads WWW-Authenticate; nil if it asks for nothing that is known. The
// error is about a realm that is not trusted.
func (c *Client) challenged(h http.Header) (*challenge, error) {
	var found *challenge
	for _, line := range h.Values("WWW-Authenticate") {
		scheme, parameters, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.EqualFold(scheme, "basic"):
			if found == nil {
				found = &challenge{basic: true}
			}
		case strings.EqualFold(scheme, "bearer"):
			p := parseParameters(parameters)
			realm, err := url.Parse(p["realm"])
			if err != nil || realm.Host == "" {
				return nil, fmt.Errorf("the realm %.200q is no URL", p["realm"])
			}
			if !c.trusts(realm) {
				return nil, fmt.Errorf("the token server %s is neither of the domain of %s nor among the trusted realms", realm.Host, c.opts.URL.Host)
			}
			found = &challenge{realm: realm, service: p["service"]}
		}
	}
	return found, nil
}

// parseParameters reads key="value", key=value. The first of several counts.
func parseParameters(s string) map[string]string {
	all := map[string]string{}
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			break
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			var b strings.Builder
			i := 1
			for ; i < len(rest) && rest[i] != '"'; i++ {
				if rest[i] == '\\' && i+1 < len(rest) {
					i++
				}
				b.WriteByte(rest[i])
			}
			value, rest = b.String(), rest[min(i+1, len(rest)):]
			_, rest, _ = strings.Cut(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		key = strings.ToLower(strings.Trim(key, " \t,"))
		if _, ok := all[key]; !ok {
			all[key] = strings.TrimSpace(value)
		}
		s = rest
	}
	return all
}

// trusts says whether the realm may learn the credentials: it is on the host of the
// registry, in the same registered domain, or the configuration names it; and it is
// not less protected than the registry.
func (c *Client) trusts(realm *url.URL) bool {
	if realm.Scheme != "https" && realm.Scheme != c.opts.URL.Scheme {
		return false
	}
	host, own := realm.Hostname(), c.opts.URL.Hostname()
	if strings.EqualFold(host, own) || slices.ContainsFunc(c.opts.Realms, func(r string) bool {
		return strings.EqualFold(r, host) || strings.EqualFold(r, realm.Host)
	}) {
		return true
	}
	if isAddress(host) || isAddress(own) {
		return false // they have no domains
	}
	a, errA := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(host))
	b, errB := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(own))
	return errA == nil && errB == nil && a == b
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || strings.Trim(host, "0123456789.") == ""
}

// authorize adds what the registry is known to ask for.
func (c *Client) authorize(ctx context.Context, req *http.Request, ch *challenge, name oci.Name) error {
	switch {
	case ch == nil:
		return nil
	case ch.basic:
		username, password, err := c.login(ctx)
		if err == nil && username != "" {
			req.SetBasicAuth(username, password)
		}
		return err
	default:
		token, err := c.token(ctx, ch, name)
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	}
}

func (c *Client) login(ctx context.Context) (username, password string, err error) {
	if c.opts.Credentials == nil {
		return "", "", nil
	}
	username, password, err = c.opts.Credentials(ctx)
	if err != nil {
		return "", "", &Error{Reason: Login, Err: err}
	}
	return username, password, nil
}

// tokens are those of repositories, until they end.
type tokens struct {
	mu    sync.Mutex
	known map[oci.Name]*token
}

type token struct {
	mu     sync.Mutex // held while it is fetched
	value  string
	until  time.Time
	failed time.Time // when it could not be fetched, and why
	err    error
}

const maxTokens = 4096

func (t *tokens) of(name oci.Name) *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTokens {
		t.known = map[oci.Name]*token{}
	}
	if t.known[name] == nil {
		t.known[name] = &token{}
	}
	return t.known[name]
}

func (t *tokens) forget(name oci.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}

// Bounds of tokens: what distribution's clients take for granted, and how long before
// its end one is not used any more.
const (
	minLifetime = time.Minute
	maxLifetime = 24 * time.Hour
	early       = 10 * time.Second
	maxToken    = 1 << 20
)

// token returns a token for pulling from the repository, of the realm if none is known.
// Those who have waited for one that could not be fetched do not try, one after the other.
func (c *Client) token(ctx context.Context, ch *challenge, name oci.Name) (string, error) {
	t, begun := c.tokens.of(name), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && time.Now().Before(t.until) {
		return t.value, nil
	}
	if t.failed.After(begun) {
		return "", t.err
	}
	value, lifetime, err := c.fetchToken(ctx, ch, name)
	if err != nil {
		t.failed, t.err = time.Now(), err
		return "", err
	}
	t.value, t.until = value, time.Now().Add(lifetime-early)
	return value, nil
}

func (c *Client) fetchToken(ctx context.Context, ch *challenge, name oci.Name) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	u := *ch.realm
	q := u.Query()
	if ch.service != "" {
		q.Set("service", ch.service)
	}
	q.Set("scope", "repository:"+string(name)+":pull")
	username, password, err := c.login(ctx)
	if err != nil {
		return "", 0, err
	}
	if username != "" {
		q.Set("account", username)
	}
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", 0, &Error{Reason: Login, Err: err}
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if username != "" {
		req.SetBasicAuth(username, password)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // read or refused does
	if err != nil {
		return "", 0, unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", 0, c.refused(resp)
	}
	body, err := read(resp.Body, maxToken)
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", 0, invalidAnswer("the token server's answer is no JSON")
	}
	value := cmp.Or(answer.Token, answer.AccessToken)
	if value == "" || strings.ContainsAny(value, "\r\n") {
		return "", 0, invalidAnswer("the token server gave no token")
	}
	seconds := min(max(answer.ExpiresIn, int64(minLifetime/time.Second)), int64(maxLifetime/time.Second))
	return value, time.Duration(seconds) * time.Second, nil
}
