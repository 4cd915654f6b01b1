package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"slipway/registry/internal/oci"
)

// challenge is a registry's request for a password, or for a token from a realm.
type challenge struct {
	basic   bool
	realm   *url.URL
	service string
}

// same reports whether both challenges ask for the same login. Either may be nil.
func (ch *challenge) same(other *challenge) bool {
	if ch == nil || other == nil || ch.basic != other.basic {
		return false
	}
	return ch.basic || ch.realm.String() == other.realm.String() && ch.service == other.service
}

// challenged returns the challenge of a 401. It returns nil for other errors and for schemes
// that it doesn't know, and an error if no token can be had where the challenge says.
func (c *Client) challenged(err error) (*challenge, error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != http.StatusUnauthorized {
		return nil, nil //nolint:nilnil // as documented
	}
	var found *challenge
	for _, line := range e.challenges {
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
				return nil, invalidAnswer("the realm %.200q is not a URL", p["realm"])
			}
			if !c.trusts(realm) {
				return nil, &Error{Reason: Realm, Status: e.Status, Err: fmt.Errorf(
					"the token server %s is neither in the domain of %s nor among the trusted realms", realm.Host, c.opts.URL.Host,
				)}
			}
			found = &challenge{realm: realm, service: p["service"]}
		}
	}
	return found, nil
}

// parseParameters parses key="value", key=value. The first of duplicate keys wins.
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

// trusts reports whether the realm may receive the credentials: it is on the registry's host
// or in its registered domain, or the configuration names it, and it is no less protected.
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
		return false // addresses have no domain
	}
	a, errA := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(host))
	b, errB := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(own))
	return errA == nil && errB == nil && a == b
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || strings.Trim(host, "0123456789.") == ""
}

// authorization returns the Authorization header that the challenge asks for. fresh reports
// that it isn't a remembered token, which renew rules out.
func (c *Client) authorization(ctx context.Context, ch *challenge, name oci.Name, renew bool) (header string, fresh bool, err error) {
	if !ch.basic {
		if t, ok := c.tokens.Get(name); ok && !renew && time.Now().Before(t.until) {
			return "Bearer " + t.value, false, nil
		}
		value, err := c.token(ctx, ch, name)
		return "Bearer " + value, true, err
	}
	username, password, err := c.login(ctx)
	if err != nil || username == "" {
		return "", true, err
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)), true, nil
}

func (c *Client) login(ctx context.Context) (username, password string, err error) {
	if c.opts.Credentials == nil {
		return "", "", nil
	}
	username, password, err = c.opts.Credentials.Login(ctx)
	if err != nil {
		return "", "", &Error{Reason: Login, Err: err}
	}
	return username, password, nil
}

// token is a bearer token for one repository.
type token struct {
	value string
	until time.Time
}

// Bounds of tokens: the lifetimes that distribution's clients assume, and how long before its
// end a token is replaced.
const (
	minLifetime = time.Minute
	maxLifetime = 24 * time.Hour
	early       = 10 * time.Second
	maxToken    = 1 << 20
)

// token fetches a token to pull from the repository, and remembers it.
func (c *Client) token(ctx context.Context, ch *challenge, name oci.Name) (string, error) {
	t, err := c.fetching.Do(ctx, ch.realm.String()+" "+string(name), func() (token, error) {
		value, lifetime, err := c.fetchToken(context.WithoutCancel(ctx), ch, name)
		t := token{value, time.Now().Add(lifetime - early)}
		if err == nil {
			c.tokens.Put(name, t, 1)
		}
		return t, err
	})
	if err != nil && ReasonOf(err) == "" {
		err = unreachable(ctx, err) // the caller's time is over
	}
	return t.value, err
}

func (c *Client) fetchToken(ctx context.Context, ch *challenge, name oci.Name) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	u := *ch.realm
	q := u.Query()
	if ch.service != "" {
		q.Set("service", ch.service)
	}
	if name != "" {
		q.Set("scope", "repository:"+string(name)+":pull")
	}
	username, password, err := c.login(ctx)
	if err != nil {
		return "", 0, err
	}
	if username != "" {
		q.Set("account", username)
	}
	u.RawQuery = q.Encode()
	req, err := c.request(ctx, http.MethodGet, &u)
	if err != nil {
		return "", 0, err
	}
	if username != "" {
		req.SetBasicAuth(username, password)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // read or refused closes it
	if err != nil {
		return "", 0, unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		failure := c.refused(resp)
		switch {
		case resp.StatusCode == http.StatusUnauthorized && username != "":
			failure.Reason = Login
			c.opts.Credentials.Refused()
		case failure.Reason == NotFound: // the repository may exist
			failure.Reason = Invalid
		}
		return "", 0, failure
	}
	body, err := read(resp.Body, maxToken)
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		Token       string      `json:"token"`
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // some servers quote it or add ".0"
	}
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &answer); err != nil {
		return "", 0, invalidAnswer("the token server's answer is not JSON")
	}
	value := cmp.Or(answer.Token, answer.AccessToken)
	if value == "" || strings.ContainsAny(value, "\r\n") {
		return "", 0, invalidAnswer("the token server returned no token")
	}
	seconds, _ := answer.ExpiresIn.Float64() // 0 if it is missing
	return value, time.Duration(min(max(seconds, minLifetime.Seconds()), maxLifetime.Seconds()) * float64(time.Second)), nil
}
