package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/doctor"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// application is the part of the API's application object that the commands use.
type application struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	RoomID string `json:"room_id"`
	Owner  string `json:"owner"`
	Token  string `json:"token"`

	Accepted int64 `json:"accepted"`
	Sent     int64 `json:"sent"`

	// Problem is why nothing would be sent to the room, or nobody would read it.
	Problem string `json:"room_problem"`
	// OldTokenUntil is until when the token before still works; nil if it does not.
	OldTokenUntil *time.Time `json:"old_token_until"`
}

// newAppCommand makes `relay app`, which manages applications as the
// administrator of the configuration.
func newAppCommand() *cobra.Command {
	return command.Group(
		"app", "Create, list, show, change and delete applications",
		"Manages applications as the configured administrator, through the running relay or, if none runs, in its database.",
		newAppCreateCommand(), newAppListCommand(), newAppShowCommand(), newAppSetCommand(), newAppDeleteCommand(),
		command.Group("token", "Replace the token of an application", "", newAppTokenCreateCommand()),
		command.Group("secret", "Set or delete the secret that verifies signed webhooks", "", newAppSecretCreateCommand(), newAppSecretDeleteCommand()),
	)
}

func newAppCreateCommand() *cobra.Command {
	var quiet, asJSON bool
	cmd := &cobra.Command{Use: "create NAME", Short: "Create an application and show its token, once", Args: cobra.ExactArgs(1)}
	s := addSettings(cmd)
	command.JSONFlag(cmd, &asJSON)
	addQuietFlag(cmd, &quiet)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		in, err := s.input(cmd.Context(), cmd, r)
		if err != nil {
			return err
		}
		in["name"] = args[0]
		var whole json.RawMessage
		if _, err := r.Do(cmd.Context(), http.MethodPost, "/application", in, &whole); err != nil {
			return err
		}
		var app application
		if err := json.Unmarshal(whole, &app); err != nil {
			return err
		}
		if err := s.setImage(cmd, r, pathOf(app.ID)); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: the image is not set:", err)
		}
		if in["room_id"] != nil {
			warnOfRoom(cmd, r, app.Name)
		} else if app.Problem != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", app.Problem)
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), whole)
		}
		return showToken(cmd, r.Base, app, quiet)
	})
}

func addQuietFlag(cmd *cobra.Command, quiet *bool) {
	cmd.Flags().BoolVarP(quiet, "quiet", "q", false, "print only the token")
	cmd.MarkFlagsMutuallyExclusive("quiet", "json")
}

func pathOf(id int64) string { return "/application/" + strconv.FormatInt(id, 10) }

// warnOfRoom prints the doctor's first finding that would delay the application's messages. It ignores errors of the
// doctor.
func warnOfRoom(cmd *cobra.Command, r *remote, app string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
	defer cancel()
	var answer struct{ Findings []doctor.Finding }
	if _, err := r.Do(ctx, http.MethodGet, "/doctor", nil, &answer); err != nil {
		return // the application exists; `relay doctor` says the rest
	}
	for _, f := range answer.Findings {
		if !f.OK && (f.Check == "room" && slices.Contains(f.Apps, app) || f.Check == "homeserver" || f.Check == "login") {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", f.Text)
			return
		}
	}
}

func showToken(cmd *cobra.Command, base string, app application, quiet bool) error {
	out := cmd.OutOrStdout()
	if quiet {
		_, err := fmt.Fprintln(out, app.Token)
		return err
	}
	_, err := fmt.Fprintf(out, "application %d, %s\ntoken %s (not shown again)\n\n"+
		"curl %s/message -d token=%s -d 'message=It works'\n", app.ID, app.Name, app.Token, base, app.Token)
	return err
}

func newAppListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List the applications", Args: cobra.NoArgs}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var apps []application
		return r.show(cmd, asJSON, http.MethodGet, "/application", nil, &apps, func(out io.Writer) error {
			w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tOWNER\tSENT\tROOM")
			for _, a := range apps {
				fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", a.ID, a.Name, a.Owner, a.Sent, a.RoomID)
			}
			return w.Flush()
		})
	})
}

func newAppTokenCreateCommand() *cobra.Command {
	var grace time.Duration
	var quiet, asJSON bool
	cmd := &cobra.Command{
		Use:   "create ID|NAME",
		Short: "Create a new token for an application and show it, once",
		Long:  "Creates a new token for an application and shows it, once. The old one stops working at once, or after --grace.",
		Args:  cobra.ExactArgs(1),
	}
	command.DurationFlag(cmd.Flags(), &grace, "grace", 0, "how long the current token stays valid")
	command.JSONFlag(cmd, &asJSON)
	addQuietFlag(cmd, &quiet)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		path, err := r.find(cmd.Context(), "application", args[0])
		if err != nil {
			return err
		}
		var app application
		return r.show(cmd, asJSON, http.MethodPost, path+"/token", map[string]any{"grace": grace.String()}, &app, func(out io.Writer) error {
			if err := showToken(cmd, r.Base, app, quiet); err != nil || quiet {
				return err
			}
			text := "the old token no longer works"
			if app.OldTokenUntil != nil {
				text = "the old token works until " + app.OldTokenUntil.UTC().Format(time.RFC3339)
			}
			_, err := fmt.Fprintf(out, "\n%s\n", text)
			return err
		})
	})
}

func newAppSecretCreateCommand() *cobra.Command {
	var stdin, asJSON bool
	cmd := &cobra.Command{
		Use:   "create ID|NAME",
		Short: "Set the secret that verifies signed webhooks",
		Long: "Sets the secret with which senders sign webhooks to the application. Without --secret-stdin one is generated and shown, once. " +
			"The relay stores it encrypted, and then refuses unsigned webhooks at the application's addresses of protocols that have signatures.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&stdin, "secret-stdin", false, "read the secret from stdin")
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		secret, err := newPassword(cmd, stdin)
		if err != nil {
			return err
		}
		if strings.TrimSpace(secret) == "" { // the API would remove it
			return command.Usage(errors.New("stdin has no secret; remove the present one with `relay app secret delete`"))
		}
		if asJSON {
			path, err := r.find(cmd.Context(), "application", args[0])
			if err != nil {
				return err
			}
			if _, err := r.Do(cmd.Context(), http.MethodPut, path, map[string]any{"hook_secret": secret}, nil); err != nil {
				return err
			}
			shown := map[string]string{}
			if !stdin { // else the caller has it
				shown["secret"] = secret
			}
			return command.WriteJSON(cmd.OutOrStdout(), shown)
		}
		if err := r.change(cmd, http.MethodPut, "application", args[0], map[string]any{"hook_secret": secret}, "secret set"); err != nil || stdin {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "secret %s (not shown again)\n", secret)
		return err
	})
}

func newAppSecretDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID|NAME", Short: "Delete the secret: webhooks need no signature", Args: cobra.ExactArgs(1)}
	command.YesFlag(cmd)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		if err := command.Confirm(cmd, "Delete the secret of application "+args[0]+"? Anybody who knows its token can send unsigned webhooks then."); err != nil {
			return err
		}
		return r.change(cmd, http.MethodPut, "application", args[0], map[string]any{"hook_secret": ""}, "secret deleted")
	})
}

func newAppDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID|NAME",
		Short: "Delete an application with its history",
		Long:  "Deletes an application: its token stops working at once, its history is removed, and waiting messages are not delivered. Its room and the messages there stay.",
		Args:  cobra.ExactArgs(1),
	}
	command.YesFlag(cmd)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		path, err := r.find(cmd.Context(), "application", args[0])
		if err != nil {
			return err
		}
		var app application
		if _, err := r.Do(cmd.Context(), http.MethodGet, path, nil, &app); err != nil {
			return err
		}
		if err := command.Confirm(cmd, fmt.Sprintf("Delete application %d, %s, with its history of %s?", app.ID, app.Name, plural.Of(app.Accepted, "message"))); err != nil {
			return err
		}
		return r.change(cmd, http.MethodDelete, "application", strconv.FormatInt(app.ID, 10), nil, "deleted")
	})
}

// change sends a request for one application or user, named by id or name, and prints done on success.
func (r *remote) change(cmd *cobra.Command, method, noun, what string, in any, done string) error {
	path, err := r.find(cmd.Context(), noun, what)
	if err != nil {
		return err
	}
	if _, err := r.Do(cmd.Context(), method, path, in, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", noun, what, done)
	return err
}

// find returns the API path of an application or user, given its id or a unique name. An id takes precedence.
func (r *remote) find(ctx context.Context, noun, what string) (path string, err error) {
	var all []struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	if _, err := r.Do(ctx, http.MethodGet, "/"+noun, nil, &all); err != nil {
		return "", err
	}
	n := 0
	for _, one := range all {
		here := "/" + noun + "/" + strconv.FormatInt(one.ID, 10)
		if one.Name == what {
			path = here
			n++
		} else if strconv.FormatInt(one.ID, 10) == what {
			return here, nil
		}
	}
	switch n {
	case 0:
		return "", fmt.Errorf("there is no %s %q", noun, what)
	case 1:
		return path, nil
	}
	return "", command.Usage(fmt.Errorf("there are %d %ss named %q; give the id", n, noun, what))
}
