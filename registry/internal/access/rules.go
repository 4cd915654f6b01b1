// Package access decides who may do what in which repository: by rules in the
// order of their file, and by the rights that a robot or a workload has of its
// own. Nothing is allowed that no rule allows.
package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// Rule is one rule as it is written.
type Rule struct {
	Who          []string // "anyone", "users", "alice", "group:devs", "robot:ci", "workload:web", "cert:build-7"
	Repositories []string
	Allow        []string
	Deny         []string
}

// Rules decides. It never changes, so a request that keeps it is judged by one
// version of the rules. The nil *Rules allows nothing.
type Rules struct {
	rules []rule
	twin  func(oci.Name) oci.Name // nil = every repository has one name
}

type rule struct {
	who         []subject
	members     [][]subject // of each word in source.Who; nil = the rule is built in
	source      Rule
	names       pattern.Names
	allow, deny Rights
	text        string // as it is written, for explanations
}

// subject selects callers.
type subject struct {
	everybody bool   // with or without a login
	users     bool   // every user and person, but no robot, workload or certificate
	bearers   bool   // every caller with a token
	group     string // every person in this group of the identity provider
	kind      Kind
	name      string
}

// New reads rules. The error joins all that is wrong; each part names its rule,
// counted from 0.
func New(groups map[string][]string, rules []Rule) (*Rules, error) {
	members, err := parseGroups(groups)
	errs := []error{err}
	r := &Rules{}
	for i := range rules {
		compiled, err := compile(&rules[i], members)
		if err != nil {
			errs = append(errs, fmt.Errorf("rules[%d]: %w", i, err))
			continue
		}
		r.rules = append(r.rules, compiled)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// WithTwins returns the rules for a registry in which some repositories have two names. So that
// neither is a way around the rules, naming one of them means both. twin returns the other name,
// or "".
func (r *Rules) WithTwins(twin func(oci.Name) oci.Name) *Rules {
	return &Rules{r.rules, twin}
}

func parseGroups(groups map[string][]string) (map[string][]subject, error) {
	members := make(map[string][]subject, len(groups))
	var errs []error
	for name, list := range groups {
		members[name] = []subject{}
		for _, word := range list {
			s, err := parseSubject(word)
			if err == nil && (s.everybody || s.users) {
				err = fmt.Errorf("%q cannot be a member of a group", word)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("groups.%s: %w", name, err))
			}
			members[name] = append(members[name], s)
		}
	}
	return members, errors.Join(errs...)
}

func compile(r *Rule, groups map[string][]subject) (rule, error) {
	c := rule{text: r.text(), source: *r}
	var errs []error
	if len(r.Who) == 0 {
		errs = append(errs, errors.New("who is required: set it to anyone, users, a user, group:NAME, robot:NAME, workload:NAME, cert:NAME, oidc:NAME or oidc-group:NAME"))
	}
	for _, text := range r.Who {
		group, isGroup := strings.CutPrefix(text, "group:")
		members, known := groups[group]
		if isGroup && !known {
			errs = append(errs, fmt.Errorf("there is no group %q", group))
		} else if !isGroup {
			s, err := parseSubject(text)
			members, errs = []subject{s}, append(errs, err)
		}
		c.who, c.members = append(c.who, members...), append(c.members, members)
	}
	if len(r.Repositories) == 0 {
		errs = append(errs, errors.New(`repositories is required; "**" is all`))
	}
	var allowErr, denyErr, nameErr error
	c.names, nameErr = pattern.ParseNames(r.Repositories)
	c.allow, allowErr = ParseRights(r.Allow)
	c.deny, denyErr = ParseRights(r.Deny)
	if nameErr != nil {
		for line := range strings.SplitSeq(nameErr.Error(), "\n") {
			errs = append(errs, errors.New("repositories: "+line))
		}
	}
	errs = append(errs, allowErr, denyErr)
	if len(r.Allow)+len(r.Deny) == 0 {
		errs = append(errs, errors.New("allow or deny is required"))
	}
	if both := c.allow & c.deny; both != 0 {
		errs = append(errs, fmt.Errorf("%s is allowed and denied", both))
	}
	c.allow = c.allow.granted() &^ c.deny
	return c, errors.Join(errs...)
}

// GroupWord begins a group of the identity provider, whose members the rules don't list.
const GroupWord = "oidc-group:"

func parseSubject(word string) (subject, error) {
	switch word {
	case "anyone":
		return subject{everybody: true}, nil
	case "users":
		return subject{users: true}, nil
	case "", "anonymous":
		return subject{}, fmt.Errorf("%q is not a caller; write anyone for everybody, with or without a login", word)
	}
	if group, ok := strings.CutPrefix(word, GroupWord); ok && group != "" {
		return subject{group: group}, nil
	}
	c := ParseCaller(word)
	if c.Name == "" {
		return subject{}, fmt.Errorf("%q names nobody", word)
	}
	if err := misread(word); err != nil {
		return subject{}, err
	}
	return subject{kind: c.Kind, name: c.Name}, nil
}

// misread refuses words that would select a user of that name and are meant otherwise.
func misread(word string) error {
	switch lower := strings.ToLower(word); lower {
	case "everyone", "everybody", "anybody", "all", "any", "*", "**", "authenticated", "anonymous":
		return fmt.Errorf("%q is not a caller; write anyone for everybody, with or without a login, or users for everybody who logs in (a user of that name is user:%[1]s)", word)
	case "anyone", "users":
		return fmt.Errorf("%q is written in small letters: %s (a user of that name is user:%[1]s)", word, lower)
	}
	if name, ok := strings.CutPrefix(word, "robot+"); ok {
		return fmt.Errorf("%q is the name that the robot logs in with; in rules it is robot:%s (a user of that name is user:%[1]s)", word, name)
	}
	kind, name, found := strings.Cut(word, ":")
	if means := map[string]string{
		"users": "user", "groups": "group", "robots": "robot", "bot": "robot", "workloads": "workload", "certs": "cert", "certificate": "cert",
		"user": "user", "group": "group", "robot": "robot", "workload": "workload", "cert": "cert",
	}[strings.ToLower(kind)]; found && means != "" && means != kind {
		return fmt.Errorf("%q is not a caller; write %s:%s (a user of that name is user:%[1]s)", word, means, name)
	}
	return nil
}

// text is the rule in one line.
func (r *Rule) text() string {
	text := strings.Join(r.Who, ", ") + " in " + strings.Join(r.Repositories, ", ") + ":"
	if len(r.Allow) > 0 {
		text += " allow " + strings.Join(r.Allow, ", ")
	}
	if len(r.Deny) > 0 {
		text += " deny " + strings.Join(r.Deny, ", ")
	}
	return text
}

// one reports whether the subject is one caller by name.
func (s *subject) one() bool { return !s.everybody && !s.users && !s.bearers && s.group == "" }

// selects reports whether the subject is the caller. A person whose groups aren't all known is in each
// group that a rule denies something to.
func (s *subject) selects(c *Caller, denies bool) bool {
	switch {
	case s.everybody:
		return true
	case s.users:
		return c.Kind == User || c.Kind == Person
	case s.group != "":
		return c.Kind == Person && (slices.Contains(c.Groups, s.group) || denies && c.MoreGroups)
	case s.bearers:
		return c.Bearer
	default:
		return s.kind == c.Kind && s.name == c.Name
	}
}

// selects reports whether the rule is about the caller and the right.
func (r *rule) selects(c *Caller, want Rights) bool {
	return (r.allow|r.deny)&want != 0 && slices.ContainsFunc(r.who, func(s subject) bool { return s.selects(c, r.deny&want != 0) })
}

// Decide decides on one right: the first rule that names the caller, the
// repository and the right decides; without one the caller's own grants do, and
// without these it is denied. What the caller's maker is denied is denied to the
// caller, too. name is "" for the registry as a whole.
func (r *Rules) Decide(c *Caller, want Rights, name oci.Name) Decision {
	if c.Only != 0 && want&c.Only == 0 {
		return Decision{Rule: -1, text: ": the personal access token is for " + c.Only.String() + " only"}
	}
	d := r.decide(c, want, name)
	if d.Allowed && c.Maker != nil {
		if bound := r.Decide(c.Maker, want, name); !bound.Allowed {
			bound.maker = c.Maker.String()
			return bound
		}
	}
	return d
}

func (r *Rules) decide(c *Caller, want Rights, name oci.Name) Decision {
	var twin oci.Name
	if r != nil {
		if r.twin != nil {
			twin = r.twin(name)
		}
		for i := range r.rules {
			rule := &r.rules[i]
			if rule.selects(c, want) && matches(rule.names, name, twin) {
				return Decision{Allowed: rule.allow&want != 0, Rule: i, text: rule.text}
			}
		}
	}
	for i := range c.Own {
		if c.Own[i].covers(want, name, twin) {
			return Decision{Allowed: true, Rule: -1, Own: true}
		}
	}
	return Decision{Rule: -1}
}

// May reports whether the caller has all of the rights.
func (r *Rules) May(c *Caller, want Rights, name oci.Name) bool {
	for right := Pull; right <= Admin; right <<= 1 {
		if want&right != 0 && !r.Decide(c, right, name).Allowed {
			return false
		}
	}
	return true
}

// Lists reports whether the caller may have List in any repository at all.
func (r *Rules) Lists(c *Caller) bool { return r.has(c, List) }

// has reports whether the caller may have the right in any repository.
func (r *Rules) has(c *Caller, want Rights) bool {
	if c.Only != 0 && want&c.Only == 0 || c.Maker != nil && !r.has(c.Maker, want) {
		return false
	}
	own := slices.ContainsFunc(c.Own, func(g Grant) bool { return g.Rights&want != 0 })
	return own || r != nil && slices.ContainsFunc(r.rules, func(x rule) bool { return x.allow&want != 0 && x.selects(c, want) })
}

// ListsMore reports whether the rules let a caller with credentials have List where an
// anonymous one doesn't. It compares patterns as they are written, so it may report too much.
func (r *Rules) ListsMore() bool {
	if r == nil {
		return false
	}
	everybody := func(x *rule) bool { return slices.ContainsFunc(x.who, func(s subject) bool { return s.everybody }) }
	for i := range r.rules {
		x := &r.rules[i]
		if x.allow&List == 0 || everybody(x) {
			continue
		}
		for _, p := range x.source.Repositories {
			// The first rule for everybody decides for anonymous callers.
			first := slices.IndexFunc(r.rules, func(y rule) bool {
				return (y.allow|y.deny)&List != 0 && everybody(&y) && (slices.Contains(y.source.Repositories, p) || slices.Contains(y.source.Repositories, "**"))
			})
			if first < 0 || first > i && r.rules[first].allow&List == 0 {
				return true
			}
		}
	}
	return false
}

// Unlimited reports whether no rule denies anything and the caller may do everything in
// every repository.
func (r *Rules) Unlimited(c *Caller) bool {
	denies := func(x rule) bool { return x.deny != 0 }
	return r != nil && !slices.ContainsFunc(r.rules, denies) && r.Decide(c, Admin, "").Allowed
}

// Written reports whether these are rules of the configuration, and not what holds without any.
func (r *Rules) Written() bool {
	return r != nil && !slices.ContainsFunc(r.rules, func(x rule) bool { return x.members == nil })
}

// Knows reports whether a rule names the caller itself, directly or in a group.
func (r *Rules) Knows(c *Caller) bool {
	if r == nil {
		return false
	}
	for i := range r.rules {
		for _, s := range r.rules[i].who {
			if s.one() && s.selects(c, false) {
				return true
			}
		}
	}
	return false
}

// Named are the callers that rules name, directly or in a group, each once.
func (r *Rules) Named() []Caller {
	var callers []Caller
	for i := range r.rules {
		for _, s := range r.rules[i].who {
			known := func(c Caller) bool { return c.Kind == s.kind && c.Name == s.name }
			if s.one() && !slices.ContainsFunc(callers, known) && len(callers) < maxNamed {
				callers = append(callers, Caller{Kind: s.kind, Name: s.name})
			}
		}
	}
	return callers
}

// Groups are the groups of the identity provider that rules name, directly or in a group, each once.
func (r *Rules) Groups() []string {
	var groups []string
	for i := range r.rules {
		for _, s := range r.rules[i].who {
			if s.group != "" && !slices.Contains(groups, s.group) && len(groups) < maxNamed {
				groups = append(groups, s.group)
			}
		}
	}
	return groups
}

// NamesUsers reports whether a rule is for every user.
func (r *Rules) NamesUsers() bool {
	return slices.ContainsFunc(r.rules, func(x rule) bool {
		return slices.ContainsFunc(x.who, func(s subject) bool { return s.users })
	})
}

// maxNamed bounds Named and Groups.
const maxNamed = 1000
