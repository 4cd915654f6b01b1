package access

import (
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// Kind is the kind of identity of a caller.
type Kind uint8

// The kinds of callers.
const (
	Anonymous   Kind = iota
	User             // a user of the password file, or the subject of a token
	Robot            // a robot account
	Workload         // a pipeline that proved itself with an OIDC token
	Certificate      // a client certificate
	Person           // a person whom an identity provider has named by OIDC
)

// kindNames are the words before the colon of a subject in the rules.
var kindNames = [...]string{"anonymous", "user", "robot", "workload", "cert", "oidc"}

// Caller identifies the sender of a request.
type Caller struct {
	Kind Kind
	Name string  // "" for Anonymous
	ID   string  // of a person or robot: another one if the name was given to somebody else; else ""
	Own  []Grant // rights that come with a robot or a workload, in addition to those of the rules

	// Maker is the caller who made this robot and whose rights bound it; nil = not bounded.
	Maker *Caller

	Groups     []string // of a person, as the identity provider names them
	MoreGroups bool     // the person may be in other groups, too: rules that deny something to a group deny it to them

	// Only are the rights that a personal access token is for; 0 stands for all.
	Only Rights

	Bearer bool // came with a token, which restricts it further
}

// String is the caller as the rules write it: "robot:ci", "alice", "anonymous".
func (c *Caller) String() string {
	switch c.Kind {
	case Anonymous:
		return kindNames[Anonymous]
	case User:
		if p := ParseCaller(c.Name); p.Kind != User || p.Name != c.Name {
			return kindNames[User] + ":" + c.Name // not to be mistaken for another kind
		}
		return c.Name
	default:
		return kindNames[c.Kind] + ":" + c.Name
	}
}

// String is the word of the kind: "user", "robot".
func (k Kind) String() string { return kindNames[k] }

// ParseKind reads what String writes; Anonymous for anything else.
func ParseKind(word string) Kind {
	for k := User; k <= Person; k++ {
		if kindNames[k] == word {
			return k
		}
	}
	return Anonymous
}

// ParseCaller reads what String writes. A name without a kind is that of a user.
func ParseCaller(s string) Caller {
	if s == kindNames[Anonymous] {
		return Caller{}
	}
	word, name, found := strings.Cut(s, ":")
	if kind := ParseKind(word); found && kind != Anonymous {
		return Caller{Kind: kind, Name: name}
	}
	return Caller{Kind: User, Name: s}
}

// Grant is rights in some repositories.
type Grant struct {
	Repositories pattern.Names
	Rights       Rights
}

// NewGrant reads patterns of repositories and words of rights.
func NewGrant(repositories, rights []string) (Grant, error) {
	names, err := pattern.ParseNames(repositories)
	if err != nil {
		return Grant{}, err
	}
	set, err := ParseRights(rights)
	return Grant{names, set.granted()}, err
}

func (g *Grant) covers(want Rights, name, twin oci.Name) bool {
	return g.Rights&want != 0 && matches(g.Repositories, name, twin)
}

// matches reports whether the repository, which may have a twin, is among the names; ""
// stands for the registry as a whole, which only "**" selects.
func matches(names pattern.Names, name, twin oci.Name) bool {
	if name == "" {
		return names.All()
	}
	return names.Match(name) || twin != "" && names.Match(twin)
}
