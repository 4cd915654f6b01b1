package command

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// Report writes the result of a command as JSON, or by text for people.
func Report(cmd *cobra.Command, asJSON bool, result any, text func(io.Writer) error) error {
	if asJSON {
		return WriteJSON(cmd.OutOrStdout(), result)
	}
	return text(cmd.OutOrStdout())
}

// WriteJSON writes a result for programs.
func WriteJSON(out io.Writer, result any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(result)
}
