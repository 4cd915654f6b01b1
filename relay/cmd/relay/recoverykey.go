package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"slipway/shared/command"
)

// newRecoveryKeyCommand makes `relay recovery-key`.
func newRecoveryKeyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recovery-key",
		Short: "Show the recovery key of the bot's identity in encrypted rooms",
		Long: "Shows the recovery key of the bot's identity. It verifies other clients of the bot, " +
			"and lets a relay that has lost its keys recover the identity (matrix.recovery_key). Store it apart from the database.",
		Args: cobra.NoArgs,
	}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var answer struct {
			Key string `json:"recovery_key"`
		}
		return r.show(cmd, asJSON, http.MethodGet, "/bot/recovery-key", nil, &answer, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, answer.Key)
			return err
		})
	})
}
