package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// newRecoveryKeyCommand makes `relay recovery-key`.
func newRecoveryKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recovery-key",
		Short: "Show the recovery key of the bot's identity in encrypted rooms",
		Long: "Shows the recovery key of the bot's identity. It verifies other clients of the bot, " +
			"and lets a relay that has lost its keys recover the identity (matrix.recovery_key). Store it apart from the database.",
		Args: cobra.NoArgs,
	}
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var answer struct {
			Key string `json:"recovery_key"`
		}
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/bot/recovery-key", nil, &answer); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), answer.Key)
		return err
	})
}
