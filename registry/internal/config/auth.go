package config

import (
	"time"

	"slipway/shared/config"
)

// Auth selects the authentication; without it everybody may do everything.
type Auth struct {
	HTPasswd *HTPasswd      `key:"htpasswd"`
	OIDC     *OIDC          `key:"oidc"`
	None     *None          `key:"none" doc:"Allow everything without a login."`
	Token    *TokenAuth     `key:"token"`
	Service  *TokenService  `key:"service" doc:"The token service inside the registry: auth: {service: builtin}."`
	Silly    config.Refused `key:"silly" why:"it accepts any Authorization header; use htpasswd or none"`
}

// HTPasswd checks user names and passwords against a file.
type HTPasswd struct {
	Realm         string        `key:"realm" doc:"Realm shown to clients. Required without a token service."`
	Path          string        `key:"path" doc:"File of users and bcrypt hashes. Required; reloaded on change."`
	AnonymousPull bool          `key:"anonymouspull" doc:"Allow pulls without a login; Docker then needs auth.service: builtin. With an access section, use a rule for anyone."`
	CacheTTL      time.Duration `key:"cachettl" min:"0" doc:"How long a correct password is remembered; 0 never."`
}

// OIDC logs people in to the pages at an identity provider.
type OIDC struct {
	Name         string        `key:"name" doc:"Name of the provider on the login page."`
	Issuer       string        `key:"issuer" doc:"URL of the provider, such as https://id.example.org/realms/main. Required."`
	ClientID     string        `key:"clientid" doc:"ID of the registry at the provider. Required."`
	ClientSecret config.Secret `key:"clientsecret" doc:"Secret of the registry at the provider; none for a public client."`
	Scopes       []string      `key:"scopes" doc:"Scopes asked for beside openid."`
	NameClaim    string        `key:"nameclaim" doc:"Claim that is NAME in rules for oidc:NAME. People must not be able to choose it freely."`
	GroupsClaim  string        `key:"groupsclaim" doc:"Claim that lists a person's groups, for rules with oidc-group:NAME."`
}

// None has no parameters.
type None struct{}

// TokenAuth checks the bearer tokens of a token server, as distribution does.
type TokenAuth struct {
	Realm             string   `key:"realm" doc:"URL of the token server. Required unless autoredirect is set."`
	Service           string   `key:"service" doc:"Name of this registry in tokens (aud). Required."`
	Issuer            string   `key:"issuer" doc:"Name of the token server in tokens (iss). Required."`
	RootCertBundle    string   `key:"rootcertbundle" doc:"File of certificates whose keys, and those of their descendants in x5c headers, sign tokens. Reloaded on change."`
	JWKS              string   `key:"jwks" doc:"File of a JWK set whose keys sign tokens. rootcertbundle or jwks is required."`
	SigningAlgorithms []string `key:"signingalgorithms" choices:"EdDSA,HS256,HS384,HS512,RS256,RS384,RS512,ES256,ES384,ES512,PS256,PS384,PS512" doc:"Allowed signing algorithms. Default: all."`
	AutoRedirect      bool     `key:"autoredirect" doc:"Send clients to autoredirectpath at the requested host instead of realm."`
	AutoRedirectPath  string   `key:"autoredirectpath" doc:"Path for autoredirect."`
}

// TokenService is the service that issues tokens.
type TokenService struct {
	Builtin *BuiltinService `key:"builtin"`
}

// BuiltinService issues tokens to users of the password file, robots and workloads.
type BuiltinService struct {
	Service         string        `key:"service" doc:"Name of this registry in its tokens; equal on all replicas."`
	Lifetime        time.Duration `key:"lifetime" doc:"Validity of a token, 1m to 1h."`
	RefreshLifetime time.Duration `key:"refreshlifetime" doc:"Validity of refresh tokens, which docker login stores."`
	Workloads       []Workload    `key:"workloads"`
}

// Workload lets a pipeline log in with the OIDC token of its CI system.
type Workload struct {
	Name         string            `key:"name" doc:"Name in rules and logs (workload:NAME). Required."`
	Issuer       string            `key:"issuer" doc:"URL of the issuer, such as https://token.actions.githubusercontent.com. Required; serves its keys."`
	Audience     string            `key:"audience" doc:"Audience that the pipeline asks its token for. Required."`
	Claims       map[string]string `key:"claims" doc:"Required claims; * matches anything but a slash and a colon, ** anything."`
	Repositories []string          `key:"repositories" doc:"Repository patterns."`
	Allow        []string          `key:"allow" choices:"pull,push,tag-move,delete,list,admin" doc:"Rights in these repositories."`
}
