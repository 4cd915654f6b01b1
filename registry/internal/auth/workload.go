package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/oidc"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// WorkloadUser is the user name with which a pipeline sends its OIDC token as the
// password.
const WorkloadUser = "oidc"

// Workload is a rule by which pipelines log in.
type Workload struct {
	Name     string
	Issuer   string
	Audience string
	Claims   map[string]string // claim → pattern
	Own      access.Grant
}

// Workloads lets pipelines log in by their OIDC tokens.
type Workloads struct{ current atomic.Pointer[workloads] }

// workloads are the rules of one version of the configuration.
type workloads struct {
	rules   []workload
	issuers *oidc.Issuers
}

type workload struct {
	Workload
	claims map[string]*regexp.Regexp
	stamp  string // changes when the rule admits another caller
}

// NewWorkloads makes workloads. Tokens count only of the issuers that a rule names.
func NewWorkloads(rules []Workload) *Workloads {
	w := &Workloads{}
	w.Set(rules)
	return w
}

// Set replaces the rules. Tokens of pipelines that the new rules do not let in end.
func (w *Workloads) Set(rules []Workload) {
	set := &workloads{}
	var issuers []string
	for _, r := range rules {
		c := workload{r, map[string]*regexp.Regexp{}, r.stamp()}
		for claim, p := range r.Claims {
			c.claims[claim] = pattern.Value(p)
		}
		set.rules, issuers = append(set.rules, c), append(issuers, r.Issuer)
	}
	set.issuers = oidc.NewIssuers(issuers)
	w.current.Store(set)
}

// Names lists the rules in force.
func (w *Workloads) Names() []string {
	var names []string
	for _, r := range w.current.Load().rules {
		names = append(names, r.Name)
	}
	return names
}

// any reports whether there are rules.
func (w *Workloads) any() bool { return w != nil && len(w.current.Load().rules) > 0 }

// stamp ties tokens to the claims that the rule asks for.
func (w *Workload) stamp() string {
	text, err := json.Marshal([]any{w.Issuer, w.Audience, w.Claims})
	if err != nil {
		panic(err) // texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// login returns the first workload whose issuer, audience and claims are those of the
// token, and the stamp of the rule that says so: by the time it returns another one may be
// in force. The error is a *Refusal or the context's.
func (w *Workloads) login(ctx context.Context, raw string) (who access.Caller, stamp string, err error) {
	set := w.current.Load()
	t, err := set.issuers.Verify(ctx, raw, time.Now())
	if ctx.Err() != nil {
		return access.Caller{}, "", ctx.Err()
	}
	if errors.Is(err, oidc.ErrUnavailable) {
		return access.Caller{}, "", &Refusal{
			Reason: IssuerUnavailable, User: WorkloadUser, Cause: err, RetryAfter: retryAfter,
			Err: oci.Explain(oci.CodeUnavailable, "the keys of the token's issuer cannot be fetched at the moment"),
		}
	}
	if err != nil {
		return access.Caller{}, "", &Refusal{Reason: BadToken, User: WorkloadUser, Cause: err}
	}
	var mismatches []string
	for i := range set.rules {
		rule := &set.rules[i]
		mismatch := rule.mismatch(t)
		if mismatch == "" {
			return access.Caller{Kind: access.Workload, Name: rule.Name, Own: []access.Grant{rule.Own}}, rule.stamp, nil
		}
		if len(mismatches) < maxMismatches {
			mismatches = append(mismatches, rule.Name+": "+mismatch)
		}
	}
	cause := fmt.Errorf("issuer %s, subject %.200q, audience %.200q; %s", t.Issuer, t.Subject, t.Audience, strings.Join(mismatches, "; "))
	return access.Caller{}, "", &Refusal{Reason: UnknownWorkload, User: WorkloadUser, Cause: cause}
}

// maxMismatches bounds how many rules the log explains.
const maxMismatches = 10

// mismatch returns why the rule doesn't accept the token, "" if it does.
func (r *workload) mismatch(t *oidc.Token) string {
	switch {
	case r.Issuer != t.Issuer:
		return "another issuer"
	case !t.For(r.Audience):
		return fmt.Sprintf("the audience is not %q", r.Audience)
	case len(r.claims) == 0:
		return "the rule names no claims"
	}
	for _, claim := range slices.Sorted(maps.Keys(r.claims)) {
		value, ok := t.Text(claim)
		switch {
		case !ok:
			return fmt.Sprintf("the claim %s is missing, or no string, boolean or number", claim)
		case !r.claims[claim].MatchString(value):
			return fmt.Sprintf("the claim %s is %.200q, not %q", claim, value, r.Claims[claim])
		}
	}
	return ""
}

// named returns the rights of the rule of that name, if it is in force.
func (w *Workloads) named(name string) ([]access.Grant, bool) {
	if w == nil {
		return nil, false
	}
	for _, r := range w.current.Load().rules {
		if r.Name == name {
			return []access.Grant{r.Own}, true
		}
	}
	return nil, false
}

// rights are those that the workload has now, unless its rule has changed since it got
// the stamp.
func (w *Workloads) rights(name, stamp string) ([]access.Grant, bool) {
	rules := w.current.Load().rules
	i := slices.IndexFunc(rules, func(r workload) bool { return r.Name == name && r.stamp == stamp })
	if i < 0 {
		return nil, false
	}
	return []access.Grant{rules[i].Own}, true
}
