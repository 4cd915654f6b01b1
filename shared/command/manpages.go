//go:build manpages

package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"slipway/shared/build"
)

func writePages(root *cobra.Command, info build.Info, dir string) error {
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Slipway " + info.Version, Manual: "Slipway"}, dir)
}
