package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api"
	"slipway/registry/internal/api/urls"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/identity/session"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/storage"
	"slipway/shared/filewatch"
)

// gate holds everything that decides on access.
type gate struct {
	authorizer *auth.Authorizer              // nil = every caller may do everything
	users      *auth.Htpasswd                // nil = no password file
	keys       *filewatch.Value[*token.Keys] // keys of a token server; nil = none
	service    *auth.Service                 // nil = there is none
	robots     *robot.Accounts               // nil = no robots
	ring       *keyring.Ring                 // signs tokens of the service and sessions; nil = there are neither
	workloads  *auth.Workloads               // workloads of the service
	twin       func(oci.Name) oci.Name       // the upstream name of a cached repository; nil = no caches
	auditLog   *audit.Log                    // nil = there is none

	inline   atomic.Pointer[access.Rules]    // rules of the configuration itself
	rules    *filewatch.Value[*access.Rules] // rules of a file
	watchers []func(context.Context)
}

// openAuth opens the authentication of the configuration. cache is nil if no repository is a cache, auditLog
// if there is no audit log.
func openAuth(ctx context.Context, cfg *config.Config, store *Backend, cache *proxy.Registry, auditLog *audit.Log, log *zap.Logger) (*gate, error) {
	g := newGate(cache)
	g.auditLog = auditLog
	named := cfg.Auth != nil && cfg.Auth.None == nil
	if !named && cfg.Access == nil {
		return g, nil
	}
	o := auth.Options{Rules: g.current, Certificates: cfg.Access != nil && cfg.HTTP.TLS != nil}
	if err := g.openRules(cfg, log); err != nil {
		return nil, err
	}
	if named {
		if err := g.openMethods(ctx, cfg, store, log, &o); err != nil {
			return nil, err
		}
	}
	g.authorizer = auth.NewAuthorizer(o)
	return g, nil
}

func newGate(cache *proxy.Registry) *gate {
	if cache == nil {
		return &gate{}
	}
	return &gate{twin: cache.Twin}
}

// current returns the rules in force.
func (g *gate) current() *access.Rules {
	if g.rules != nil {
		return g.rules.Get()
	}
	return g.inline.Load()
}

func (g *gate) openRules(cfg *config.Config, log *zap.Logger) (err error) {
	switch a := cfg.Access; {
	case a == nil && cfg.Auth.Token != nil:
		g.inline.Store(access.Bearers()) // the token alone restricts
	case a == nil:
		g.inline.Store(access.UsersOnly(cfg.Auth.HTPasswd != nil && cfg.Auth.HTPasswd.AnonymousPull))
	case a.File != "":
		g.rules, err = filewatch.Open(filewatch.Options{What: "access rules", Paths: []string{a.File}, Log: log}, func(contents [][]byte) (*access.Rules, error) {
			rules, err := config.LoadAccess(a.File, contents[0])
			if err != nil {
				return nil, err
			}
			return rules.WithTwins(g.twin), nil
		})
		if err != nil {
			return fmt.Errorf("access.file: %w", err)
		}
		var known *access.Rules
		read := func(err error) {
			change := ""
			if err == nil {
				now := g.rules.Last()
				change, known = access.Changes(known, now), now
			}
			g.auditLog.Write(audit.Record{Time: time.Now(), Event: "reload", Who: "registry", From: audit.Operator(), Reference: a.File, Change: change, Result: audit.ResultOf(err)})
		}
		read(nil)
		g.rules.OnReload(read)
	default:
		g.takeRules(cfg)
	}
	return nil
}

// takeRules puts the rules of the configuration itself into force, if it has any.
func (g *gate) takeRules(cfg *config.Config) (taken bool) {
	if g.rules != nil || cfg.Access == nil || cfg.Access.File != "" {
		return false
	}
	rules, err := cfg.Access.Compile() // checked with the configuration
	if err == nil {
		g.inline.Store(rules.WithTwins(g.twin))
	}
	return err == nil
}

func (g *gate) openMethods(ctx context.Context, cfg *config.Config, store *Backend, log *zap.Logger, o *auth.Options) (err error) {
	if h := cfg.Auth.HTPasswd; h != nil {
		remember := h.CacheTTL
		if remember == 0 {
			remember = -1
		}
		if g.users, err = auth.NewHtpasswd(auth.HtpasswdOptions{Path: h.Path, Log: log, Remember: remember}); err != nil {
			return err
		}
		o.Realm = h.Realm
	}
	people := openPeople(cfg, store)
	if people != nil {
		o.Realm = cmp.Or(o.Realm, "Registry")
		o.Logins = &auth.Logins{Htpasswd: g.users, People: people}
	}
	if err := g.openRing(ctx, cfg, store, log); err != nil {
		return err
	}
	switch {
	case cfg.Auth.Token != nil:
		return g.openTokenServer(cfg.Auth.Token, log, o)
	case cfg.Auth.Service != nil:
		return g.openService(cfg, store, people, log, o)
	default:
		return nil
	}
}

// openPeople returns the personal access tokens, or nil if the configuration allows none.
func openPeople(cfg *config.Config, store storage.Store) *personal.Tokens {
	switch a := cfg.Auth; {
	case a != nil && a.OIDC != nil:
		return personal.New(store, a.OIDC.Issuer+" "+a.OIDC.NameClaim)
	case a != nil && a.HTPasswd != nil:
		return personal.New(store, "")
	default:
		return nil
	}
}

// openRing opens the keys that sign tokens of the service and sessions of the pages, if there are any.
func (g *gate) openRing(ctx context.Context, cfg *config.Config, store *Backend, log *zap.Logger) (err error) {
	var lifetime time.Duration
	if cfg.HTTP.UI.Enabled && (cfg.Auth.HTPasswd != nil || cfg.Auth.OIDC != nil) {
		lifetime = session.Lifetime
	}
	if cfg.Auth.Service != nil {
		lifetime = max(lifetime, cfg.Auth.Service.Builtin.Lifetime, cfg.Auth.Service.Builtin.RefreshLifetime)
	}
	if lifetime == 0 {
		return nil
	}
	if g.ring, err = keyring.Open(ctx, store, lifetime, log); err == nil {
		g.watchers = append(g.watchers, g.ring.Watch)
	}
	return err
}

// openService starts the token service inside the registry.
func (g *gate) openService(cfg *config.Config, store *Backend, people *personal.Tokens, log *zap.Logger, o *auth.Options) (err error) {
	b := cfg.Auth.Service.Builtin
	g.robots = robot.New(store, log)
	g.workloads = auth.NewWorkloads(workloads(b.Workloads))
	logins := &auth.Logins{Htpasswd: g.users, Robots: g.robots, Workloads: g.workloads, People: people}
	if g.users != nil && !cfg.Storage.Maintenance.ReadOnly.Enabled {
		g.watchers = append(g.watchers, func(ctx context.Context) { logins.WatchMakers(ctx, log) })
	}
	g.service = auth.NewService(auth.ServiceOptions{
		Rules: g.current, Logins: logins, Keys: g.ring, Service: b.Service, Lifetime: b.Lifetime, RefreshLifetime: b.RefreshLifetime,
	})
	root, err := urls.PublicRoot(cfg.HTTP.Prefix, cfg.HTTP.Host)
	if err != nil {
		return err
	}
	o.Logins, o.Tokens, o.Service = logins, g.service, b.Service
	o.TokenRealm = func(r *http.Request) string { return root(r) + api.TokenPath }
	return nil
}

// takeWorkloads puts the workloads of the configuration into force.
func (g *gate) takeWorkloads(list []config.Workload) {
	if g.workloads != nil {
		g.workloads.Set(workloads(list))
	}
}

func workloads(list []config.Workload) []auth.Workload {
	rules := make([]auth.Workload, len(list))
	for i, w := range list {
		own, err := access.NewGrant(w.Repositories, w.Allow)
		if err != nil {
			panic(err) // checked with the configuration
		}
		rules[i] = auth.Workload{Name: w.Name, Issuer: w.Issuer, Audience: w.Audience, Claims: w.Claims, Own: own}
	}
	return rules
}

// serve adds the parts that the API uses to its options.
func (g *gate) serve(o api.Options) api.Options {
	if o.Robots = g.robots; g.authorizer != nil {
		o.Auth, o.Rights = g.authorizer, g.authorizer
	}
	if g.service != nil {
		o.Tokens = g.service
	}
	o.Users = g.accounts()
	return o
}

// accounts changes the users of the password file, nil if there is none.
func (g *gate) accounts() *auth.Accounts {
	if g.users == nil {
		return nil
	}
	return &auth.Accounts{Users: g.users, Robots: g.robots, Rules: g.current}
}

func (g *gate) openTokenServer(t *config.TokenAuth, log *zap.Logger, o *auth.Options) (err error) {
	files := filewatch.Options{What: "keys of tokens", Paths: []string{t.RootCertBundle, t.JWKS}, Log: log}
	g.keys, err = filewatch.Open(files, func(contents [][]byte) (*token.Keys, error) { return token.ParseKeys(contents[0], contents[1]) })
	if err != nil {
		return fmt.Errorf("auth.token: %w", err)
	}
	o.Tokens = auth.ServerTokens{Verifier: token.NewVerifier(token.VerifierOptions{
		Issuer: t.Issuer, Audience: t.Service, Algorithms: t.SigningAlgorithms, Keys: g.keys.Get,
	})}
	o.Service = t.Service
	o.TokenRealm = func(*http.Request) string { return t.Realm }
	if t.AutoRedirect {
		o.TokenRealm = func(r *http.Request) string { return urls.RedirectRealm(r, t.AutoRedirectPath) }
	}
	return nil
}

// reload reads the files again. Each logs its error.
func (g *gate) reload() {
	if g.users != nil {
		_ = g.users.Reload()
	}
	if g.keys != nil {
		_ = g.keys.Reload()
	}
	if g.rules != nil {
		_ = g.rules.Reload()
	}
}

// checkAuthFiles checks that the files of logins and rules can be read.
func checkAuthFiles(cfg *config.Config, check func(key, path string)) {
	if a := cfg.Access; a != nil && a.File != "" {
		check("access.file", a.File)
	}
	if cfg.Auth == nil || cfg.Auth.Token == nil {
		return
	}
	for key, path := range map[string]string{"auth.token.rootcertbundle": cfg.Auth.Token.RootCertBundle, "auth.token.jwks": cfg.Auth.Token.JWKS} {
		if path != "" {
			check(key, path)
		}
	}
}
