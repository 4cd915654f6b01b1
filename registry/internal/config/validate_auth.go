package config

import (
	"strings"
	"time"

	"slipway/registry/internal/access"
	"slipway/shared/config"
)

// validate makes sure that a section that is there decides something: one left
// empty by mistake must not leave the registry open.
func (a *Auth) validate(p *config.Problems, rules bool) {
	switch {
	case a.HTPasswd == nil && a.OIDC == nil && a.None == nil && a.Token == nil && a.Service == nil:
		p.Addf("auth", "names nothing; write auth: none to let everybody do everything")
	case a.None != nil && (a.HTPasswd != nil || a.OIDC != nil || a.Token != nil || a.Service != nil):
		p.Addf("auth", "none can't stand beside another kind; keep one")
	case a.Token != nil && (a.HTPasswd != nil || a.OIDC != nil || a.Service != nil):
		p.Addf("auth", "names token beside htpasswd, oidc or service: tokens come from one token server; leave token out to use the one inside the registry")
	}
	if h := a.HTPasswd; h != nil {
		if a.Service == nil && h.Realm == "" {
			p.Addf("auth.htpasswd.realm", "is required; any name, such as \"Registry\"")
		}
		required(p, "auth.htpasswd.path", h.Path)
		if h.AnonymousPull && rules {
			p.Addf("auth.htpasswd.anonymouspull", "does nothing beside an access section; write a rule there: {who: [anyone], repositories: [\"**\"], allow: [pull]}")
		}
	}
	if a.OIDC != nil {
		a.OIDC.validate(p, rules)
	}
	if a.Token != nil {
		a.Token.validate(p)
	}
	if a.Service != nil {
		a.Service.validate(p)
	}
}

func (o *OIDC) validate(p *config.Problems, rules bool) {
	const key = "auth.oidc."
	p.Issuer(key+"issuer", o.Issuer, "https://id.example.org/realms/main")
	required(p, key+"clientid", o.ClientID)
	required(p, key+"nameclaim", o.NameClaim)
	if !rules {
		p.Addf("auth.oidc", "needs an access section: without rules, everybody whom the provider knows could do everything")
	}
}

func (t *TokenAuth) validate(p *config.Problems) {
	if !t.AutoRedirect {
		required(p, "auth.token.realm", t.Realm)
	} else if !strings.HasPrefix(t.AutoRedirectPath, "/") {
		p.Addf("auth.token.autoredirectpath", "must begin with a slash")
	}
	required(p, "auth.token.service", t.Service)
	required(p, "auth.token.issuer", t.Issuer)
	if t.RootCertBundle == "" && t.JWKS == "" {
		p.Addf("auth.token", "needs rootcertbundle or jwks: the keys that sign tokens")
	}
}

func (s *TokenService) validate(p *config.Problems) {
	b := s.Builtin
	if b == nil {
		p.Addf("auth.service", "names nothing; write auth: {service: builtin}")
		return
	}
	const key = "auth.service.builtin."
	required(p, key+"service", b.Service)
	if b.Lifetime < time.Minute || b.Lifetime > time.Hour {
		p.Addf(key+"lifetime", "must be from 1m to 1h")
	}
	if b.RefreshLifetime < b.Lifetime || b.RefreshLifetime > 365*24*time.Hour {
		p.Addf(key+"refreshlifetime", "must be from lifetime to 8760h")
	}
	seen := map[string]bool{}
	for i := range b.Workloads {
		w := &b.Workloads[i]
		at := item(key+"workloads", i)
		w.validate(p, at)
		if seen[w.Name] {
			p.Addf(at+".name", "%q is the name of another workload", w.Name)
		}
		seen[w.Name] = true
	}
}

func (w *Workload) validate(p *config.Problems, at string) {
	required(p, at+".name", w.Name)
	required(p, at+".audience", w.Audience)
	p.Issuer(at+".issuer", w.Issuer, "https://token.actions.githubusercontent.com")
	if len(w.Claims) == 0 {
		p.Addf(at+".claims", "is required: without a claim every pipeline of the issuer could log in")
	}
	names(p, at+".repositories", w.Repositories)
	if _, err := access.ParseRights(w.Allow); err != nil {
		p.Addf(at+".allow", "%v", err)
	}
	if len(w.Allow) == 0 {
		p.Addf(at+".allow", "is required")
	}
}
