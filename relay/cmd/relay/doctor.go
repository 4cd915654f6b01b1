package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"slipway/relay/internal/doctor"
)

// newDoctorCommand makes `relay doctor`: a sentence for each thing that a
// delivery needs.
func newDoctorCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell whether everything that a delivery needs is well",
		Long: "Looks at the database, the homeserver, the bot's login and each application's room and says a sentence about each. " +
			"It asks the running relay, or looks itself when none runs. Ends with an error if anything is not well.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.use(cmd, func(r *remote) error {
				var answer struct{ Findings []doctor.Finding }
				if _, err := r.do(cmd.Context(), http.MethodGet, "/doctor", nil, &answer); err != nil {
					return err
				}
				return tell(cmd, answer.Findings)
			})
		},
	}
	t.addFlags(cmd)
	return cmd
}

func tell(cmd *cobra.Command, findings []doctor.Finding) error {
	wrong := 0
	for _, f := range findings {
		mark := "ok  "
		if !f.OK {
			mark = "BAD "
			wrong++
		}
		fmt.Fprintln(cmd.OutOrStdout(), mark, f.Text)
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d things are not well", wrong, len(findings))
	}
	return nil
}
