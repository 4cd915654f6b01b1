package app

import (
	"fmt"

	"slipway/registry/internal/config"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/signature"
)

// signatures reads the keys of the policy. It returns nil if there is no policy.
func signatures(p *config.Policy) (*signature.Policy, error) {
	var rules []signature.Rule
	for i, r := range p.Signatures {
		rule := signature.Rule{Repositories: pattern.MustNames(r.Repositories), Refuse: r.Action == "refuse"}
		for j, path := range r.Keys {
			key, err := signature.LoadKey(path)
			if err != nil {
				return nil, fmt.Errorf("policy.signatures[%d].keys[%d]: %w", i, j, err)
			}
			rule.Keys = append(rule.Keys, key)
		}
		rules = append(rules, rule)
	}
	return signature.New(rules), nil
}
