package config

import (
	"strings"

	"slipway/registry/internal/access"
	"slipway/shared/config"
)

// Access holds the rules of rights. With it, nothing is allowed that no
// rule allows.
type Access struct {
	File   string              `key:"file" doc:"File of groups and rules, reloaded on change; a broken edit keeps the previous rules."`
	Groups map[string][]string `key:"groups" doc:"Groups by name, each a list of users, robot:NAME, workload:NAME, cert:NAME, oidc:NAME or oidc-group:NAME."`
	Rules  []AccessRule        `key:"rules"`
}

// AccessRule allows and denies. The first rule that names caller, repository and right
// decides.
type AccessRule struct {
	Who          []string `key:"who" doc:"anyone, users, a user's name, group:NAME, robot:NAME, workload:NAME, cert:NAME, oidc:NAME or oidc-group:NAME."`
	Repositories []string `key:"repositories" doc:"Repository patterns."`
	Allow        []string `key:"allow" choices:"pull,push,tag-move,delete,list,admin" doc:"Rights. push includes pull, admin everything."`
	Deny         []string `key:"deny" choices:"pull,push,tag-move,delete,list,admin" doc:"Denied rights."`
}

// AccessFile is the content of a file of rules.
type AccessFile struct {
	Groups map[string][]string `key:"groups"`
	Rules  []AccessRule        `key:"rules"`
}

// LoadAccess reads the content of a file of rules; name is for messages.
func LoadAccess(name string, content []byte) (*access.Rules, error) {
	var f AccessFile
	if _, err := config.Load(&f, config.Options{File: name, Source: content}); err != nil {
		return nil, err
	}
	return compileRules(f.Groups, f.Rules)
}

// Compile makes the rules of the section itself.
func (a *Access) Compile() (*access.Rules, error) { return compileRules(a.Groups, a.Rules) }

func compileRules(groups map[string][]string, rules []AccessRule) (*access.Rules, error) {
	list := make([]access.Rule, len(rules))
	for i, r := range rules {
		list[i] = access.Rule(r)
	}
	return access.New(groups, list)
}

func (a *Access) validate(p *config.Problems) {
	if a.File != "" {
		if len(a.Groups)+len(a.Rules) > 0 {
			p.Addf("access", "names a file beside groups or rules; write them in one place")
		}
		return
	}
	if len(a.Rules) == 0 {
		p.Addf("access", "has no rules, which would let nobody in; write rules or file")
	}
	_, err := a.Compile()
	addRuleErrors(p, "access.", err)
}

// Validate adds everything that is wrong with the groups and rules.
func (f *AccessFile) Validate(p *config.Problems) {
	if len(f.Rules) == 0 {
		p.Addf("", "has no rules, which would let nobody in")
	}
	_, err := compileRules(f.Groups, f.Rules)
	addRuleErrors(p, "", err)
}

// addRuleErrors adds each line of an error of [access.New] to the rule or group that it begins with, or that a line before it began
// with.
func addRuleErrors(p *config.Problems, section string, err error) {
	if err == nil {
		return
	}
	key := strings.TrimSuffix(section, ".")
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if at, rest, found := strings.Cut(line, ": "); found && (strings.HasPrefix(at, "rules[") || strings.HasPrefix(at, "groups.")) {
			key, line = section+at, rest
		}
		at := key
		if field, rest, found := strings.Cut(line, " is required"); found && (field == "who" || field == "repositories") {
			at, line = key+"."+field, "is required"+rest
		}
		if rest, found := strings.CutPrefix(line, "repositories: "); found {
			at, line = key+".repositories", rest
		}
		p.Addf(at, "%s", line)
	}
}

// Audit is the log of callers and their actions.
type Audit struct {
	File   string `key:"file" doc:"File for the log; pulls and refusals go to a second one with .reads appended. SIGHUP reopens both. One of file and stdout is required."`
	Stdout bool   `key:"stdout" doc:"Write the lines to standard output."`
}

func (a *Audit) validate(p *config.Problems) {
	if a.File == "" && !a.Stdout {
		p.Addf("audit", "names no place: write file or stdout")
	}
}
