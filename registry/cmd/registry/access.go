package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/robot"
)

func newAccessCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "access", Short: "Explain what the access rules allow"}
	cmd.AddCommand(newExplainCommand())
	return cmd
}

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain WHO REPOSITORY RIGHT [FILE]",
		Short: "Say whether somebody may do something, and by which rule",
		Long: `Says whether WHO has a right in REPOSITORY, and which rule decides.

WHO is anonymous, a user's name, robot:NAME (or robot+NAME, its user name),
workload:NAME or cert:NAME. RIGHT is pull, push, tag-move, delete, list or admin.
REPOSITORY "*" stands for the registry as a whole, such as the management of
robots; only rules for "**" apply to it. The configuration is FILE, or the one that REGISTRY_CONFIGURATION_PATH names.

The exit status is 0 for an answer, "allowed" or "denied", and 1 without one, as
for a user whom the password file does not have.`,
		Args: cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			right, err := access.ParseRight(args[2])
			if err != nil {
				return err
			}
			var name oci.Name
			if args[1] != "*" {
				if name, err = oci.ParseName(args[1]); err != nil {
					return fmt.Errorf("%q is not the name of a repository", args[1])
				}
			}
			cfg, _, err := config.Load(fileArgument(args[3:]), os.Environ())
			if err != nil {
				return err
			}
			rules, err := loadRules(cfg)
			if err != nil {
				return err
			}
			who, err := parseWho(cfg, args[0])
			if err != nil {
				return err
			}
			if who.Own, err = ownRights(cmd, cfg, fileArgument(args[3:]), &who); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), rules.Explain(&who, right, name))
			return err
		},
	}
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
func loadRules(cfg *config.Config) (*access.Rules, error) {
	if cfg.Auth == nil && cfg.Access == nil || cfg.Auth != nil && cfg.Auth.None != nil && cfg.Access == nil {
		return nil, errors.New("the configuration has neither logins nor access rules: everybody may do everything")
	}
	if cfg.Auth != nil && cfg.Auth.Token != nil && cfg.Access == nil {
		return nil, errors.New("the configuration has no access rules: the tokens of its token server decide")
	}
	cache, err := openProxy(cfg, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	if cache != nil {
		defer cache.Close()
	}
	g := newGate(cache)
	if err := g.openRules(cfg, zap.NewNop()); err != nil {
		return nil, err
	}
	return g.current(), nil
}

// ownRights are those that a robot or a workload has of its own.
func ownRights(cmd *cobra.Command, cfg *config.Config, file string, who *access.Caller) ([]access.Grant, error) {
	switch who.Kind {
	case access.Robot:
		e, err := openEnvironment(cmd, file, false)
		if err != nil {
			return nil, err
		}
		all, err := robot.New(e.store, e.log).List(cmd.Context())
		if err := errors.Join(err, e.close()); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(r robot.Robot) bool { return r.Name == who.Name })
		if i < 0 {
			return nil, fmt.Errorf("there is no robot %q", who.Name)
		}
		if all[i].Expired(time.Now()) {
			return nil, fmt.Errorf("the robot %q has expired", who.Name)
		}
		grant, err := all[i].Grant()
		return []access.Grant{grant}, err
	case access.Workload:
		workloads := workloadsOf(cfg)
		i := slices.IndexFunc(workloads, func(w config.Workload) bool { return w.Name == who.Name })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q", who.Name)
		}
		grant, err := access.NewGrant(workloads[i].Repositories, workloads[i].Allow)
		return []access.Grant{grant}, err
	default:
		return nil, nil
	}
}

func workloadsOf(cfg *config.Config) []config.Workload {
	if cfg.Auth == nil || cfg.Auth.Service == nil || cfg.Auth.Service.Builtin == nil {
		return nil
	}
	return cfg.Auth.Service.Builtin.Workloads
}
