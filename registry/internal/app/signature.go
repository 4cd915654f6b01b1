package app

import (
	"errors"
	"fmt"

	"slipway/registry/internal/config"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/signature"
	"slipway/shared/fileerror"
)

// signatures reads the keys of the policy. It returns nil if there is no policy; the error joins those of all keys.
func signatures(p *config.Policy) (*signature.Policy, error) {
	var rules []signature.Rule
	var errs []error
	for i, r := range p.Signatures {
		rule := signature.Rule{Repositories: pattern.MustNames(r.Repositories), Refuse: r.Action == "refuse"}
		for j, path := range r.Keys {
			key, err := loadKey(path)
			if err != nil {
				errs = append(errs, fmt.Errorf("policy.signatures[%d].keys[%d]: %w", i, j, err))
			}
			rule.Keys = append(rule.Keys, key)
		}
		rules = append(rules, rule)
	}
	return signature.New(rules), errors.Join(errs...)
}

func loadKey(path string) (signature.Key, error) {
	if err := canRead(path); err != nil {
		return signature.Key{}, fileerror.Explain(path, err)
	}
	return signature.LoadKey(path)
}
