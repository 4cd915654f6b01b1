package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/sharedstate"
)

// maxCallers bounds Callers.
const maxCallers = 500

// Known is a caller, or the part of the callers that a group of the identity provider is.
type Known struct {
	access.Caller
	Who string // as the rules write it
	// NoPassword reports whether the caller is a user without a line in the password file; such a user can't log in.
	NoPassword bool
}

// AnyPerson stands for each person of the identity provider that no rule names.
const AnyPerson = "anybody at the identity provider"

// Callers returns the callers that are known by name: users of the password file, callers that rules name,
// robots and workloads, each with the rights of now, and anonymous ones. Of the people of the
// identity provider, which can't be listed, there is a sample in each group that rules name, and
// one in none. more reports whether there are others.
func (a *Authorizer) Callers(ctx context.Context) (callers []Known, more bool, err error) {
	known := map[string]access.Caller{"anonymous": {}}
	for _, c := range a.opts.Rules().Named() {
		known[c.String()] = c
	}
	if l := a.opts.Logins; l != nil {
		if l.Htpasswd != nil {
			if users := l.Htpasswd.file.Get(); users != nil {
				for name := range users.byName {
					c := access.Caller{Kind: access.User, Name: name}
					known[c.String()] = c
				}
			}
		}
		if l.Robots != nil {
			robots, err := l.Robots.List(ctx)
			if err != nil {
				return nil, false, err
			}
			for i := range robots {
				c := access.Caller{Kind: access.Robot, Name: robots[i].Name}
				known[c.String()] = c
			}
		}
		if l.Workloads != nil {
			for _, name := range l.Workloads.Names() {
				c := access.Caller{Kind: access.Workload, Name: name}
				known[c.String()] = c
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return strings.Compare(sortKey(a), sortKey(b))
	}) {
		c := known[name]
		if more = len(callers) == maxCallers; more {
			break
		}
		l := a.opts.Logins
		if l != nil {
			if err := l.Equip(ctx, &c); errors.Is(err, sharedstate.ErrUnread) {
				return nil, false, err
			} else if err != nil {
				continue
			}
		}
		callers = append(callers, Known{c, name, l != nil && c.Kind == access.User && !l.hasPassword(c.Name)})
	}
	if people := a.People(); people != nil && people.HasProvider() {
		for _, group := range a.opts.Rules().Groups() {
			callers = append(callers, Known{Caller: access.Caller{Kind: access.Person, Groups: []string{group}}, Who: access.GroupWord + group})
		}
		callers = append(callers, Known{Caller: access.Caller{Kind: access.Person}, Who: AnyPerson})
	}
	return callers, more, nil
}

// CallerRights are the decisions on a caller in a repository.
type CallerRights struct {
	Who     string    `json:"who"`      // as the rules write it
	NoLogin bool      `json:"no_login"` // a user without a line in the password file
	Rights  []Decided `json:"rights"`
}

// Decided is the decision on one right.
type Decided struct {
	Right   string `json:"right"`
	Allowed bool   `json:"allowed"`
	Why     string `json:"why"`
}

// RightColumns are the rights in the order in which Rights decides on them.
var RightColumns = []access.Rights{access.Pull, access.Push, access.TagMove, access.Delete, access.List, access.Admin}

// Rights returns what callers may do in a repository: of all that are known, if the holder of the grant has Admin
// there and a token, if there is one, was issued for that, which whole reports, else of the holder alone. more reports
// whether there are other callers.
func (a *Authorizer) Rights(ctx context.Context, g *Grant, name oci.Name) (rows []CallerRights, whole, more bool, err error) {
	me := Known{Caller: g.Caller, Who: g.Caller.String()}
	callers := []Known{me}
	if whole = g.May(access.Admin.Needs(), name) && (Access{Action: Administer}).covered(g.token); whole {
		if callers, more, err = a.Callers(ctx); err != nil {
			return nil, whole, more, err
		}
		if !slices.ContainsFunc(callers, func(c Known) bool { return c.Who == me.Who }) {
			callers = append(callers, me)
		}
	}
	for i := range callers {
		c := &callers[i]
		row := CallerRights{Who: c.Who, NoLogin: c.NoPassword}
		for _, right := range RightColumns {
			d := a.Explain(&c.Caller, right, name)
			row.Rights = append(row.Rights, Decided{right.String(), d.Allowed, d.Part()})
		}
		rows = append(rows, row)
	}
	return rows, whole, more, nil
}

// hasPassword reports whether the password file has the user.
func (l *Logins) hasPassword(name string) bool {
	if l.Htpasswd == nil {
		return false
	}
	users := l.Htpasswd.file.Get()
	if users == nil {
		return true // it cannot be read at the moment
	}
	_, has := users.byName[name]
	return has
}

// sortKey puts anonymous callers first and users before all that have a kind.
func sortKey(name string) string {
	switch {
	case name == "anonymous":
		return "0"
	case strings.Contains(name, ":"):
		return "2" + name
	default:
		return "1" + name
	}
}

// Equip sets the rights that a login as c would have: its own grants and, for a robot, its maker's rights as an
// upper bound. The error explains why such a login fails.
func (l *Logins) Equip(ctx context.Context, c *access.Caller) error {
	switch {
	case c.Kind == access.Robot && l.Robots != nil:
		account, err := l.Robots.Find(ctx, c.Name)
		if err == nil {
			err = l.empower(ctx, c, account, 0)
		}
		if err != nil {
			return fmt.Errorf("the robot %q cannot log in: %w", c.Name, err)
		}
	case c.Kind == access.Workload && l.Workloads != nil:
		var ok bool
		if c.Own, ok = l.Workloads.named(c.Name); !ok {
			return fmt.Errorf("there is no workload %q", c.Name)
		}
	case c.Kind == access.Person && l.People != nil:
		_ = l.addGroups(ctx, c) // without a login there are no groups
	}
	return nil
}

// LacksGroups reports whether rules name groups of the identity provider but c, a person, has none.
func (a *Authorizer) LacksGroups(c *access.Caller) bool {
	return c.Kind == access.Person && len(c.Groups) == 0 && len(a.opts.Rules().Groups()) > 0
}

// Explain decides on a right of another caller, as a request of that caller would be decided.
func (a *Authorizer) Explain(c *access.Caller, right access.Rights, name oci.Name) access.Decision {
	return a.opts.Rules().Explain(c, right, name)
}
