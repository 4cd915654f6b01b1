//go:build !manpages

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"slipway/shared/build"
)

// writePages fails: what makes manual pages adds a quarter of a megabyte to a program that never needs it again.
func writePages(*cobra.Command, build.Info, string) error {
	return errors.New("manual pages need a program built with -tags manpages")
}
