package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/storage"
)

// OpenStore opens the storage, calls do with it and closes it.
type OpenStore func(do func(storage.Store) error) error

// Explain reports whether a caller has a right in a repository, and which rule decides. groups are a
// person's groups at the identity provider. An empty name stands for the registry as a whole. open
// is called only if the caller is a robot.
func Explain(ctx context.Context, cfg *config.Config, who string, groups []string, right access.Rights, name oci.Name, open OpenStore) (allowed bool, why string, err error) {
	cache, err := CacheNames(cfg)
	if err != nil {
		return false, "", err
	}
	if cache != nil {
		defer cache.Close()
	}
	rules, err := loadRules(cfg, cache)
	if err != nil {
		return false, "", err
	}
	caller, err := parseWho(cfg, who)
	if err != nil {
		return false, "", err
	}
	if len(groups) > 0 && caller.Kind != access.Person {
		return false, "", fmt.Errorf("only people of an identity provider are in its groups, such as oidc:%s", caller.Name)
	}
	caller.Groups = groups
	if err := equip(ctx, cfg, &caller, open); err != nil {
		return false, "", err
	}
	decision := rules.Explain(&caller, right, name)
	if setting := disabledBy(cfg, cache, right, name); setting != "" && decision.Allowed {
		return false, fmt.Sprintf("denied to everybody by %s; the rules have it %s", setting, decision), nil
	}
	return decision.Allowed, decision.String(), nil
}

// disabledBy names the setting by which nobody can use the right, "" if there is none.
func disabledBy(cfg *config.Config, cache *proxy.Registry, right access.Rights, name oci.Name) string {
	switch changes := access.Push | access.TagMove | access.Delete; {
	case right&changes != 0 && cfg.Storage.Maintenance.ReadOnly.Enabled:
		return "storage.maintenance.readonly.enabled"
	case right&changes != 0 && name != "" && cache != nil && cache.Caches(name):
		return "proxy, as the repository is a cache"
	case right == access.Delete && !cfg.Storage.Delete.Enabled:
		return "storage.delete.enabled, which is not set"
	}
	return ""
}

// parseWho reads whom the command asks about: one caller, who can exist.
func parseWho(cfg *config.Config, word string) (access.Caller, error) {
	builtin := cfg.Auth != nil && cfg.Auth.Service != nil
	if name, ok := strings.CutPrefix(word, robot.UserPrefix); ok && builtin {
		return access.Caller{Kind: access.Robot, Name: name}, nil
	}
	who := access.ParseCaller(word)
	switch {
	case strings.HasPrefix(word, "group:"):
		return who, fmt.Errorf("%q is a group: ask about one of its members", word)
	case word == "anyone" || word == "users":
		return who, fmt.Errorf("%q is many callers; ask about anonymous, or about one user", word)
	case who.Kind != access.Anonymous && who.Name == "":
		return who, fmt.Errorf("%q names nobody", word)
	case who.Kind != access.User || cfg.Auth == nil || cfg.Auth.HTPasswd == nil:
		return who, nil
	}
	path := cfg.Auth.HTPasswd.Path
	content, err := os.ReadFile(path)
	if err != nil {
		return who, nil //nolint:nilerr // the rules can be explained without the passwords, which the caller may not read
	}
	if !slices.Contains(auth.UserNames(content), who.Name) {
		return who, fmt.Errorf("there is no user %s in %s who can log in", who.Name, path)
	}
	return who, nil
}

// loadRules reads the rules that a server with this configuration has in force.
func loadRules(cfg *config.Config, cache *proxy.Registry) (*access.Rules, error) {
	if cfg.Auth == nil && cfg.Access == nil || cfg.Auth != nil && cfg.Auth.None != nil && cfg.Access == nil {
		return nil, errors.New("the configuration has neither logins nor access rules: everybody may do everything")
	}
	if cfg.Auth != nil && cfg.Auth.Token != nil && cfg.Access == nil {
		return nil, errors.New("the configuration has no access rules: the tokens of its token server decide")
	}
	g := newGate(cache)
	if err := g.openRules(cfg, zap.NewNop()); err != nil {
		return nil, err
	}
	return g.current(), nil
}

// equip sets the rights that a robot or workload has at the server. It calls open for robots only.
func equip(ctx context.Context, cfg *config.Config, who *access.Caller, open OpenStore) error {
	logins := &auth.Logins{Workloads: auth.NewWorkloads(workloads(workloadsOf(cfg)))}
	switch who.Kind {
	case access.Robot:
		return open(func(store storage.Store) error {
			logins.Robots, logins.People = robot.New(store, zap.NewNop()), openPeople(cfg, store)
			var unread error // which matters only if the maker is a user
			if cfg.Auth != nil && cfg.Auth.HTPasswd != nil {
				logins.Htpasswd, unread = auth.NewHtpasswd(auth.HtpasswdOptions{Path: cfg.Auth.HTPasswd.Path, Log: zap.NewNop()})
			}
			err := logins.Equip(ctx, who)
			if err != nil && unread != nil {
				return unread
			}
			return err
		})
	case access.Workload:
		return logins.Equip(ctx, who)
	default:
		return nil
	}
}

func workloadsOf(cfg *config.Config) []config.Workload {
	if cfg.Auth == nil || cfg.Auth.Service == nil || cfg.Auth.Service.Builtin == nil {
		return nil
	}
	return cfg.Auth.Service.Builtin.Workloads
}
