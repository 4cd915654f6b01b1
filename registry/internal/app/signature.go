package app

import (
	"errors"
	"fmt"

	"slipway/registry/internal/config"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/signature"
	"slipway/shared/fileerror"
	"slipway/shared/filewatch"
)

// signatureRules reads the keys and trusted roots of the policy. The error joins those of all files.
func signatureRules(p *config.Policy) (rules []signature.Rule, err error) {
	var errs []error
	for i, r := range p.Signatures {
		names, _ := pattern.ParseNames(r.Repositories) // the check of the values reports errors
		rule := signature.Rule{Repositories: names, Refuse: r.Action == "refuse"}
		for j, path := range r.Keys {
			key, err := parseFile(path, signature.ParseKey)
			errs = appendError(errs, fmt.Sprintf("policy.signatures[%d].keys[%d]", i, j), err)
			rule.Keys = append(rule.Keys, key)
		}
		if r.TrustedRoot != "" && len(r.Identities) > 0 {
			var identities []signature.Identity
			for _, who := range r.Identities {
				identities = append(identities, signature.Identity(who))
			}
			var err error
			rule.Identities, err = parseFile(r.TrustedRoot, func(content []byte) (*signature.Identities, error) {
				return signature.NewIdentities(content, identities)
			})
			errs = appendError(errs, fmt.Sprintf("policy.signatures[%d].trustedroot", i), err)
		}
		rules = append(rules, rule)
	}
	return rules, errors.Join(errs...)
}

// parseFile reads and parses a file. The error of parse continues a sentence that begins with the path.
func parseFile[T any](path string, parse func([]byte) (T, error)) (value T, err error) {
	content, err := filewatch.ReadFile(path)
	if err != nil {
		return value, fileerror.Explain(path, err)
	}
	if value, err = parse(content); err != nil {
		return value, fmt.Errorf("%s %w", path, err)
	}
	return value, nil
}
