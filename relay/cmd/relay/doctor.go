package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"slipway/relay/internal/doctor"
	"slipway/shared/command"
)

// newDoctorCommand makes `relay doctor`.
func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that a delivery needs",
		Long: "Checks the relay, the database, the homeserver, the bot's login and each application's room, and prints one line for each. " +
			"Asks the running relay, or checks by itself if none runs. Exits with 1 if a check fails.",
		Args: cobra.NoArgs,
	}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		var answer report
		if _, err := r.Do(cmd.Context(), http.MethodGet, "/doctor", nil, &answer); err != nil {
			return err
		}
		if !r.stopped { // else the first finding says so
			answer.Findings = append([]doctor.Finding{doctor.Runs(r.Base)}, answer.Findings...)
		}
		err := command.Report(cmd, asJSON, answer, answer.print)
		if wrong := answer.wrong(); err == nil && wrong > 0 {
			err = fmt.Errorf("%d of %d checks failed", wrong, len(answer.Findings))
		}
		return err
	})
}

// report is the API's answer.
type report struct {
	OK       bool             `json:"ok"`
	Findings []doctor.Finding `json:"findings"`
}

func (r *report) wrong() (n int) {
	for _, f := range r.Findings {
		if !f.OK {
			n++
		}
	}
	return n
}

func (r *report) print(out io.Writer) error {
	for _, f := range r.Findings {
		mark := "ok  "
		switch {
		case !f.OK:
			mark = "BAD "
		case f.Warn:
			mark = "WARN"
		}
		if _, err := fmt.Fprintln(out, mark, f.Text); err != nil {
			return err
		}
	}
	return nil
}
