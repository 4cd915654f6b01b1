// Package auth finds out who sends a request, and lets the rules of package
// access decide whether they may. It answers with a grant or with an error that
// carries what the client is told.
package auth

import (
	"strings"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
)

// Action is the permission that a route needs.
type Action uint8

// The actions. Ping needs valid credentials and nothing else: it is what
// `docker login` tries them on.
const (
	Ping Action = iota + 1
	Pull
	Push
	Delete
	Catalog
	Administer // robots; see [Grant.Administers] for which
)

// Access is the right that a request needs.
type Access struct {
	Action     Action
	Repository oci.Name // "" for Ping, Catalog and Administer
	From       oci.Name // the repository that a mount takes from, "" without one
}

// rights are those that the action needs in its repository.
func (a Access) rights() access.Rights {
	switch a.Action {
	case Pull:
		return access.Pull
	case Push:
		return access.Push.Needs()
	case Delete:
		return access.Delete
	default:
		return 0
	}
}

// Grant is a request that was let in: its sender, and what else they may do. It is
// judged by the rules that were in force when it was let in or last confirmed.
type Grant struct {
	Caller access.Caller
	User   string // the caller in logs and events; "" is anonymous
	Fresh  bool   // the credential was just checked, not remembered: worth a line in the log

	rules *access.Rules
	stamp string        // ties the caller to the credential that was proven; "" = there is none
	token *token.Claims // nil = the request came without one
}

// May reports whether the caller may do that in the repository.
func (g *Grant) May(want access.Rights, name oci.Name) bool {
	return g.rules.May(&g.Caller, want, name) && g.scoped(want, name)
}

// Writes reports whether the caller may push to the repository, whatever the token of this request was issued for: a client that
// pushes may ask for another token to read with. Tokens of other services count for what they were issued for.
func (g *Grant) Writes(name oci.Name) bool {
	if g.token != nil && g.token.Own == nil {
		return g.May(access.Push, name)
	}
	return g.User != "" && g.rules.May(&g.Caller, access.Push, name)
}

// Sees reports whether the catalog shows the repository to the caller. A token for the
// catalog is not issued for each repository in it, so the rules alone decide.
func (g *Grant) Sees(name oci.Name) bool {
	return g.rules.May(&g.Caller, access.List.Needs(), name)
}

// Administers reports whether the caller administers all repositories that the patterns select;
// without patterns, the registry as a whole. A token must have been issued for that.
func (g *Grant) Administers(patterns []string) bool {
	return g.rules.Administers(&g.Caller, patterns) && Access{Action: Administer}.covered(g.token)
}

// AdministersAny reports whether the caller may administer any repository at all. A token must have been issued for that.
func (g *Grant) AdministersAny() bool {
	return g.rules.AdministersAny(&g.Caller) && Access{Action: Administer}.covered(g.token)
}

// Unlimited reports whether the caller may do everything everywhere.
func (g *Grant) Unlimited() bool {
	return g.token == nil && g.rules.Unlimited(&g.Caller)
}

// PersonalToken returns the ID of the personal access token that has proven the caller, "" if none has.
func (g *Grant) PersonalToken() string {
	stamp := g.stamp
	if g.token != nil && g.token.Own != nil {
		stamp = g.token.Own.Stamp
	}
	id, ok := strings.CutPrefix(stamp, tokenStamp)
	if !ok {
		return ""
	}
	return id
}

// Classes are those that the token, if there is one, names for the repository; nil stands
// for all.
func (g *Grant) Classes(name oci.Name) (classes []string) {
	if g.token == nil {
		return nil
	}
	for i := range g.token.Access {
		if s := &g.token.Access[i]; s.Type == "repository" && s.Name == string(name) {
			classes = append(classes, s.Class)
		}
	}
	return classes
}

// scoped reports whether the token, if there is one, was issued for that. Tokens know
// fewer words than the rules: the right to move a tag comes with push, the place in
// the catalog with pull.
func (g *Grant) scoped(want access.Rights, name oci.Name) bool {
	if g.token == nil {
		return true
	}
	for right, action := range scopeActions {
		if want&right != 0 && !g.token.Covers("repository", string(name), action) {
			return false
		}
	}
	return true
}

// scopeActions are the names in tokens of the rights that can be asked for alone.
var scopeActions = map[access.Rights]string{access.Pull: "pull", access.Push: "push", access.Delete: "delete", access.TagMove: "push"}

// Record names one permission in the detail of a 401, with the names that CNCF
// distribution gives them.
type Record struct {
	Type   string
	Class  string
	Name   string
	Action string
}

// Reason explains why credentials were not accepted. It is a closed set for the log and for a
// metric's label; clients don't see it.
type Reason string

// The reasons.
const (
	NoCredentials     Reason = "no credentials"
	BadHeader         Reason = "malformed authorization header"
	UnknownUser       Reason = "unknown user"
	DisabledUser      Reason = "disabled user"
	WrongPassword     Reason = "wrong password"
	TooManyLogins     Reason = "too many logins at once"
	TooManyRequests   Reason = "too many requests"
	TooManyUploads    Reason = "too many uploads at the same time"
	NoPasswordFile    Reason = "the password file cannot be read"
	BadToken          Reason = "invalid token"
	RevokedToken      Reason = "the token's credential has changed or was revoked"
	NarrowToken       Reason = "the token was not issued for this"
	Forbidden         Reason = "not allowed"
	UnknownRobot      Reason = "unknown, expired or deleted robot"
	MakerGone         Reason = "the robot's maker no longer exists"
	RobotsUnread      Reason = "the robots cannot be read"
	TokensUnread      Reason = "personal access tokens cannot be read"
	UnknownWorkload   Reason = "no workload rule accepts the token"
	IssuerUnavailable Reason = "the keys of the token's issuer cannot be fetched"
	ProviderRefused   Reason = "the identity provider did not vouch for the caller"
	ForeignPage       Reason = "sent by a page of another site"
)

// FailedLogins lists the reasons of refusals caused by a wrong or revoked credential. An expired token is not one.
func FailedLogins() []Reason {
	return []Reason{UnknownUser, DisabledUser, WrongPassword, RevokedToken, UnknownRobot, MakerGone, UnknownWorkload, ProviderRefused}
}

// Refusal is the error of a request that may not pass. It unwraps to the
// *oci.Error for the body of the answer.
type Refusal struct {
	Reason Reason
	User   string // the caller or, of a login that failed, the name that the client gave
	Cause  error  // for the log; nil if the reason says it all

	// Challenge is the value of WWW-Authenticate, "" if the answer is no 401.
	Challenge string

	// RetryAfter is set when the client should try again later.
	RetryAfter time.Duration

	Err *oci.Error
}

// Error is the form for logs.
func (r *Refusal) Error() string {
	text := string(r.Reason)
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	if r.Cause != nil {
		text += ": " + r.Cause.Error()
	}
	return text
}

// Unwrap returns what the client is told, if that is settled already.
func (r *Refusal) Unwrap() error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}

// records lists the permissions that an access needs, in the order of CNCF
// distribution's answers.
func (a Access) records() []Record { return a.appendRecords(nil) }

func (a Access) appendRecords(rs []Record) []Record {
	repo := func(n oci.Name, action string) {
		rs = append(rs, Record{Type: "repository", Name: string(n), Action: action})
	}
	switch a.Action {
	case Pull:
		repo(a.Repository, "pull")
	case Push:
		repo(a.Repository, "pull")
		repo(a.Repository, "push")
	case Delete:
		repo(a.Repository, "delete")
	case Catalog:
		rs = append(rs, Record{Type: "registry", Name: "catalog", Action: "*"})
	case Administer:
		rs = append(rs, Record{Type: "registry", Name: "slipway", Action: "*"})
	case Ping:
	}
	if a.From != "" && a.From != a.Repository {
		repo(a.From, "pull")
	}
	return rs
}

// covered reports whether the token, if there is one, allows all of it.
func (a Access) covered(t *token.Claims) bool {
	if t == nil {
		return true
	}
	var room [3]Record // this runs for each request
	for _, r := range a.appendRecords(room[:0]) {
		if !t.Covers(r.Type, r.Name, r.Action) {
			return false
		}
	}
	return true
}
