package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway/shared/command"
)

// newUserCommand makes `relay user`, which manages users as the administrator of
// the configuration.
func newUserCommand() *cobra.Command {
	return command.Group(
		"user", "Create, list, show, change and delete users",
		"Manages users as the configured administrator, through the running relay or, if none runs, in its database.",
		newUserCreateCommand(), newUserListCommand(), newUserShowCommand(), newUserSetCommand(), newUserDeleteCommand(),
	)
}

// user is the part of the API's user object that the commands use.
type user struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	MatrixID string `json:"matrix_id"`
	Admin    bool   `json:"is_admin"`
	// Password is one that the command made.
	Password string `json:"password,omitempty"`
}

func newUserListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List the users", Args: cobra.NoArgs}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var users []user
		return r.show(cmd, asJSON, http.MethodGet, "/user", nil, &users, func(out io.Writer) error { return printUsers(out, users...) })
	})
}

func newUserShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show ID|NAME", Short: "Show a user", Args: cobra.ExactArgs(1)}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		path, err := r.find(cmd.Context(), "user", args[0])
		if err != nil {
			return err
		}
		var u user
		return r.show(cmd, asJSON, http.MethodGet, path, nil, &u, func(out io.Writer) error { return printUsers(out, u) })
	})
}

func printUsers(out io.Writer, users ...user) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tADMIN\tMATRIX ID")
	for _, u := range users {
		fmt.Fprintf(w, "%d\t%s\t%t\t%s\n", u.ID, u.Name, u.Admin, u.MatrixID)
	}
	return w.Flush()
}

// userFields are the flags for a user's attributes.
type userFields struct {
	matrixID string
	admin    bool
}

func (f *userFields) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.matrixID, "matrix-id", "", "Matrix ID, such as @name:example.org")
	cmd.Flags().BoolVar(&f.admin, "admin", false, "whether the user is an administrator")
}

// given returns the fields whose flags are given.
func (f *userFields) given(cmd *cobra.Command) map[string]any {
	in := map[string]any{}
	if cmd.Flags().Changed("matrix-id") {
		in["matrix_id"] = f.matrixID
	}
	if cmd.Flags().Changed("admin") {
		in["is_admin"] = f.admin
	}
	return in
}

func newUserCreateCommand() *cobra.Command {
	var f userFields
	var stdin, asJSON bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a user",
		Long:  "Creates a user. Without --password-stdin a password is generated and shown, once.",
		Args:  cobra.ExactArgs(1),
	}
	f.addFlags(cmd)
	addStdinFlag(cmd, &stdin)
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		password, err := newPassword(cmd, stdin)
		if err != nil {
			return err
		}
		in := f.given(cmd)
		in["name"], in["password"] = args[0], password
		var out user
		if _, err := r.Do(cmd.Context(), http.MethodPost, "/user", in, &out); err != nil {
			return err
		}
		if !stdin {
			out.Password = password
		}
		return command.Report(cmd, asJSON, out, func(w io.Writer) error {
			fmt.Fprintf(w, "user %d, %s\n", out.ID, out.Name)
			return showPassword(w, out.Password)
		})
	})
}

func newUserSetCommand() *cobra.Command {
	var f userFields
	var name string
	var stdin, generate, asJSON bool
	cmd := &cobra.Command{
		Use:        "set ID|NAME",
		SuggestFor: []string{"update", "password", "rename"},
		Short:      "Change a user's name, password, Matrix ID or rights",
		Long:       "Changes what the flags give. Another password ends the user's sessions.",
		Args:       cobra.ExactArgs(1),
	}
	f.addFlags(cmd)
	cmd.Flags().StringVar(&name, "name", "", "new name")
	addStdinFlag(cmd, &stdin)
	cmd.Flags().BoolVar(&generate, "new-password", false, "generate a password and show it, once")
	cmd.MarkFlagsMutuallyExclusive("password-stdin", "new-password")
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		in := f.given(cmd)
		if cmd.Flags().Changed("name") {
			in["name"] = name
		}
		password := ""
		if stdin || generate {
			var err error
			if password, err = newPassword(cmd, stdin); err != nil {
				return err
			}
			in["password"] = password
		}
		if len(in) == 0 {
			return command.Usage(errors.New("nothing to change: give --name, --matrix-id, --admin, --password-stdin or --new-password"))
		}
		path, err := r.find(cmd.Context(), "user", args[0])
		if err != nil {
			return err
		}
		var out user
		if _, err := r.Do(cmd.Context(), http.MethodPut, path, in, &out); err != nil {
			return err
		}
		if generate {
			out.Password = password
		}
		return command.Report(cmd, asJSON, out, func(w io.Writer) error {
			fmt.Fprintf(w, "user %s: changed\n", args[0])
			return showPassword(w, out.Password)
		})
	})
}

func newUserDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID|NAME", Short: "Delete a user with the user's applications", Args: cobra.ExactArgs(1)}
	command.YesFlag(cmd)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		if err := command.Confirm(cmd, "Delete user "+args[0]+" with the applications that the user owns, and their histories?"); err != nil {
			return err
		}
		return r.change(cmd, http.MethodDelete, "user", args[0], nil, "deleted")
	})
}

func addStdinFlag(cmd *cobra.Command, stdin *bool) {
	cmd.Flags().BoolVar(stdin, "password-stdin", false, "read the password from stdin")
}

// newPassword reads a password from stdin or makes one.
func newPassword(cmd *cobra.Command, stdin bool) (string, error) {
	if !stdin {
		return rand.Text(), nil
	}
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxStdin))
	return strings.TrimRight(string(text), "\r\n"), err
}

// showPassword prints a generated password; it does nothing for "".
func showPassword(out io.Writer, password string) error {
	if password == "" {
		return nil
	}
	_, err := fmt.Fprintf(out, "password %s (not shown again)\n", password)
	return err
}
