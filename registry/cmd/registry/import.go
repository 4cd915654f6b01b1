package main

import (
	"errors"

	"github.com/spf13/cobra"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/ocilayout"
)

// newImportCommand makes `registry import`.
func newImportCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE SOURCE REPOSITORY",
		Short: "Take an OCI layout into a repository",
		Long: "Takes all that is in the OCI layout, a directory or a tar file, into the repository, as pushes would: what pushes may not do, " +
			"such as moving an immutable tag, it does not either. Blobs that are there are not copied. It may run beside a server.",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := oci.ParseName(args[2])
			if err != nil {
				return err
			}
			w, err := openWorkshop(cmd, args[0])
			if err != nil {
				return err
			}
			return errors.Join(w.takeIn(cmd, args[1], name, asJSON), w.close())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write what was done as JSON")
	return cmd
}

// takeIn imports a layout, announced to collectors of garbage like any writer.
func (w *workshop) takeIn(cmd *cobra.Command, path string, name oci.Name, asJSON bool) error {
	leave, err := announce(cmd.Context(), w.cfg, w.rules, w.log)
	if err != nil {
		return err
	}
	defer leave()
	report, err := ocilayout.Import(cmd.Context(), path, w.rules.Repository(name))
	if err != nil {
		return err
	}
	return printCarried(cmd.OutOrStdout(), "taken in", report, asJSON)
}
