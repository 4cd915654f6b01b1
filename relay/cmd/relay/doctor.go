package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"slipway/relay/internal/doctor"
)

// newDoctorCommand makes `relay doctor`.
func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that a delivery needs",
		Long: "Checks the relay, the database, the homeserver, the bot's login and each application's room, and prints one line for each. " +
			"Asks the running relay, or checks by itself if none runs. Exits with 1 if a check fails.",
		Args: cobra.NoArgs,
	}
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var answer struct{ Findings []doctor.Finding }
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/doctor", nil, &answer); err != nil {
			return err
		}
		if !r.stopped { // else the first finding says so
			answer.Findings = append([]doctor.Finding{doctor.Runs(r.Base)}, answer.Findings...)
		}
		return printFindings(cmd, answer.Findings)
	})
}

func printFindings(cmd *cobra.Command, findings []doctor.Finding) error {
	wrong := 0
	for _, f := range findings {
		mark := "ok  "
		switch {
		case !f.OK:
			mark = "BAD "
			wrong++
		case f.Warn:
			mark = "WARN"
		}
		fmt.Fprintln(cmd.OutOrStdout(), mark, f.Text)
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d checks failed", wrong, len(findings))
	}
	return nil
}
