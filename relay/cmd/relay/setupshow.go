package main

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway/relay/internal/client"
	"slipway/shared/command"
)

// newSetupShowCommand makes `relay setup show`: what the setup keeps out of its
// lines, which end up in logs.
func newSetupShowCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show accounts, addresses and passwords",
		Long:  "Shows the names and passwords that `relay setup` made, read from its files. It contacts no server and changes nothing.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			token, err := client.ReadSecret(dir, client.Token)
			if err != nil {
				return err
			}
			person, err := client.ReadSecret(dir, client.PersonPassword)
			if err != nil {
				return err
			}
			if token == "" {
				return errors.New("the setup is not complete: run `relay setup`")
			}
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), map[string]any{
					"relay":  map[string]string{"name": cfg.Admin.Name, "password": cfg.Admin.Password.Reveal()},
					"matrix": map[string]string{"name": cfg.Admin.MatrixID, "password": person},
					"token":  token,
				})
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintf(w, "relay\tlog in as %s\tpassword %s\n", cfg.Admin.Name, cfg.Admin.Password.Reveal())
			fmt.Fprintf(w, "Matrix\tlog in as %s\tpassword %s\n", cfg.Admin.MatrixID, cmp.Or(person, "(your own)"))
			fmt.Fprintf(w, "senders\tsend with the token\t%s\n", token)
			return w.Flush()
		},
	}
	addConfigFlag(cmd)
	command.JSONFlag(cmd, &asJSON)
	addSecretsFlag(cmd, &dir)
	return cmd
}

func addSecretsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "secrets", "", "folder of the secrets; required. matrix.password_file and admin.password_file of the configuration name matrix_password and admin_password in it")
	if err := cmd.MarkFlagRequired("secrets"); err != nil {
		panic(err) // the flag is defined above
	}
}
