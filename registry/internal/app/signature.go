package app

import (
	"errors"
	"fmt"

	"slipway/registry/internal/config"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/signature"
	"slipway/shared/fileerror"
)

// signatureRules reads the keys and trusted roots of the policy. The error joins those of all files.
func signatureRules(p *config.Policy) (rules []signature.Rule, err error) {
	var errs []error
	for i, r := range p.Signatures {
		names, _ := pattern.ParseNames(r.Repositories) // the check of the values reports errors
		rule := signature.Rule{Repositories: names, Refuse: r.Action == "refuse"}
		for j, path := range r.Keys {
			key, err := loadKey(path)
			errs = appendError(errs, fmt.Sprintf("policy.signatures[%d].keys[%d]", i, j), err)
			rule.Keys = append(rule.Keys, key)
		}
		if r.TrustedRoot != "" && len(r.Identities) > 0 {
			var err error
			rule.Identities, err = loadIdentities(&r)
			errs = appendError(errs, fmt.Sprintf("policy.signatures[%d].trustedroot", i), err)
		}
		rules = append(rules, rule)
	}
	return rules, errors.Join(errs...)
}

func loadKey(path string) (signature.Key, error) {
	if err := canRead(path); err != nil {
		return nil, fileerror.Explain(path, err)
	}
	return signature.LoadKey(path)
}

func loadIdentities(r *config.SignatureRule) (*signature.Identities, error) {
	if err := canRead(r.TrustedRoot); err != nil {
		return nil, fileerror.Explain(r.TrustedRoot, err)
	}
	var identities []signature.Identity
	for _, i := range r.Identities {
		identities = append(identities, signature.Identity(i))
	}
	return signature.LoadIdentities(r.TrustedRoot, identities)
}
