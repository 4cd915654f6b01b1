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
		"user", "Create, list, change and delete users",
		"Manages users as the configured administrator, through the running relay or, if none runs, in its database.",
		newUserListCommand(), newUserCreateCommand(), newUserUpdateCommand(), newUserPasswordCommand(), newUserDeleteCommand(),
	)
}

func newUserListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the users", Args: cobra.NoArgs}
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var users []struct {
			ID       int64  `json:"id"`
			Name     string `json:"name"`
			MatrixID string `json:"matrix_id"`
			Admin    bool   `json:"is_admin"`
		}
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/user", nil, &users); err != nil {
			return err
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tNAME\tADMIN\tMATRIX ID")
		for _, u := range users {
			fmt.Fprintf(w, "%d\t%s\t%t\t%s\n", u.ID, u.Name, u.Admin, u.MatrixID)
		}
		return w.Flush()
	})
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
	var stdin bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a user; without --password-stdin a password is generated and shown, once",
		Args:  cobra.ExactArgs(1),
	}
	f.addFlags(cmd)
	addStdinFlag(cmd, &stdin)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		password, err := newPassword(cmd, stdin)
		if err != nil {
			return err
		}
		in := f.given(cmd)
		in["name"], in["password"] = args[0], password
		var out struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
		}
		if _, err := r.Do(cmd.Context(), http.MethodPost, "/user", in, &out); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "user %d, %s\n", out.ID, out.Name)
		return showPassword(cmd, stdin, password)
	})
}

func newUserUpdateCommand() *cobra.Command {
	var f userFields
	var name string
	cmd := &cobra.Command{Use: "update ID|NAME", Short: "Change a user's name, Matrix ID or rights", Args: cobra.ExactArgs(1)}
	f.addFlags(cmd)
	cmd.Flags().StringVar(&name, "name", "", "new name")
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		in := f.given(cmd)
		if cmd.Flags().Changed("name") {
			in["name"] = name
		}
		if len(in) == 0 {
			return errors.New("nothing to change: give --name, --matrix-id or --admin")
		}
		return r.change(cmd, http.MethodPut, "user", args[0], in, "changed")
	})
}

func newUserPasswordCommand() *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{Use: "password ID|NAME", Short: "Give a user another password, which ends the user's sessions", Args: cobra.ExactArgs(1)}
	addStdinFlag(cmd, &stdin)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		password, err := newPassword(cmd, stdin)
		if err != nil {
			return err
		}
		if err := r.change(cmd, http.MethodPut, "user", args[0], map[string]any{"password": password}, "password changed"); err != nil {
			return err
		}
		return showPassword(cmd, stdin, password)
	})
}

func newUserDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID|NAME", Short: "Delete a user with the user's applications", Args: cobra.ExactArgs(1)}
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
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

func showPassword(cmd *cobra.Command, stdin bool, password string) error {
	if stdin {
		return nil
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "password %s (not shown again)\n", password)
	return err
}
