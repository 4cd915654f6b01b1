package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/identity/robot"
	"slipway/shared/command"
)

func newRobotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "robot",
		Short: "Create, list and delete robot accounts",
		Long: "Robot accounts are credentials for programs, with rights of their own. They are stored with the images, so all replicas see a change " +
			"within two seconds. Logging in as a robot requires auth.service.",
	}
	cmd.AddCommand(newRobotCreateCommand(), newRobotListCommand(), newRobotDeleteCommand())
	return cmd
}

func newRobotCreateCommand() *cobra.Command {
	var r robot.Robot
	var expires time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a robot and show its password, once",
		Long: "Creates a robot account with these rights in the repositories, in addition to those that access rules give to robot:NAME. Rules that deny apply to it. " +
			"Its password is shown once and stored as a hash.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if (len(r.Repositories) == 0) != (len(r.Allow) == 0) {
				return command.Usage(errors.New("--repositories and --allow belong together: give both, or neither for a robot that only access rules name"))
			}
			if err := notNegative("--expires", expires); err != nil {
				return err
			}
			if expires > 0 {
				r.Expires = time.Now().Add(expires).UTC().Truncate(time.Second)
			}
			return withRobots(cmd, audit.Record{Event: "robot created", Reference: r.Name, Change: r.Summary()}, func(e *environment, accounts *robot.Accounts) error {
				password, err := accounts.Create(cmd.Context(), r)
				if err != nil {
					return err
				}
				warnIdle(e, &r)
				if asJSON {
					return command.WriteJSON(cmd.OutOrStdout(), map[string]string{"username": robot.UserPrefix + r.Name, "password": password})
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "User name:  %s%s\nPassword:   %s\nThe password is not shown again.\n", robot.UserPrefix, r.Name, password)
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&r.Repositories, "repositories", nil, "patterns of repositories, such as 'web/**'")
	flags.StringSliceVar(&r.Allow, "allow", nil, "rights: pull, push, tag-move, delete, list, admin")
	command.DurationFlag(flags, &expires, "expires", 0, "time after which the robot is refused, such as 90d; 0 means never")
	flags.StringVar(&r.Note, "note", "", "what the robot is for")
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

// warnIdle warns if the configuration shows that the robot has no rights.
func warnIdle(e *environment, r *robot.Robot) {
	if len(r.Repositories) > 0 {
		return
	}
	var rules *access.Rules
	if e.Config.Access != nil {
		var err error
		if rules, err = app.AccessRules(e.Config.Access); err != nil {
			return
		}
	}
	if who := (&access.Caller{Kind: access.Robot, Name: r.Name}); !rules.Knows(who) {
		e.Log.Warn("no access rule names the robot, and it has no rights of its own: it may only do what anonymous callers may", zap.Stringer("robot", who))
	}
}

func newRobotListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the robots, without their passwords",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withRobots(cmd, audit.Record{}, func(e *environment, accounts *robot.Accounts) error {
				all, err := accounts.List(cmd.Context())
				if err != nil {
					return err
				}
				return command.Report(cmd, asJSON, all, func(out io.Writer) error { return printRobots(out, all, time.Now()) })
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func printRobots(out io.Writer, all []robot.Robot, now time.Time) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tREPOSITORIES\tRIGHTS\tEXPIRES\tCREATED\tMAKER\tNOTE")
	for i := range all {
		r := &all[i]
		expires := "never"
		if !r.Expires.IsZero() {
			expires = r.Expires.Format(time.DateOnly)
			if r.Expires.Sub(now).Abs() < 48*time.Hour {
				expires = r.Expires.UTC().Format("2006-01-02 15:04 UTC")
			}
		}
		if r.Expired(now) {
			expires += " (expired)"
		}
		repositories, rights := strings.Join(r.Repositories, ","), strings.Join(r.Allow, ",")
		if rights == "" {
			repositories, rights = "by rules", "by rules"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, repositories, rights, expires, r.Created.Format(time.DateOnly), cmp.Or(r.CreatedBy, "-"), r.Note)
	}
	return t.Flush()
}

func newRobotDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete NAME",
		SuggestFor: []string{"revoke", "remove"},
		Short:      "Delete a robot: its password and its tokens end within two seconds",
		Args:       cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Confirm(cmd, "Delete the robot "+args[0]+"?"); err != nil {
				return err
			}
			return withRobots(cmd, audit.Record{Event: "robot deleted", Reference: args[0]}, func(e *environment, accounts *robot.Accounts) error {
				if err := accounts.Revoke(cmd.Context(), args[0]); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "Robot %s deleted\n", args[0])
				return err
			})
		},
	}
	command.YesFlag(cmd)
	return cmd
}

// withRobots is onStorage for commands that read or change robots.
func withRobots(cmd *cobra.Command, act audit.Record, do func(e *environment, accounts *robot.Accounts) error) error {
	return onStorage(cmd, act, func(e *environment) error {
		if e.Config.Storage.InMemory != nil {
			return errors.New("robots of a registry in memory are managed over its API only")
		}
		if e.Config.Auth == nil || e.Config.Auth.Service == nil {
			e.Log.Warn("auth.service is not set: robots cannot log in")
		}
		if act.Event != "" {
			app.RestrictSecrets(e.Config, e.Log)
		}
		return do(e, robot.New(e.Store, e.Log))
	})
}
