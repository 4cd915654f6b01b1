package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"slipway/shared/build"
)

// Manual is a hidden command that writes a manual page for each command of the program into a directory, as releases
// need them. The pages have the date of SOURCE_DATE_EPOCH.
func Manual(info build.Info) *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write the manual pages into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Slipway " + info.Version, Manual: "Slipway"}, args[0])
		},
	}
}
