package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/ocilayout"
)

// newImportCommand returns the `registry import` command.
func newImportCommand() *cobra.Command {
	var asJSON, merge bool
	cmd := &cobra.Command{
		Use:   "import FILE SOURCE REPOSITORY",
		Short: "Import an OCI layout into a repository",
		Long: "Imports an OCI layout, a directory or a tar file, into the repository. The rules of pushes apply: an import can't move " +
			"an immutable tag. Stored blobs are not copied again. A registry may serve meanwhile.\n\n" +
			"A layout of several repositories is refused unless --merge is set, because equal tags would replace each other.",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := oci.ParseName(args[2])
			if err != nil {
				return err
			}
			act := commandAct(cmd)
			act.Repository = string(name)
			return onStorage(cmd, args[0], act, func(e *environment) error {
				return e.importLayout(cmd, args[1], name, ocilayout.ImportOptions{Merge: merge}, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write what was done as JSON")
	cmd.Flags().BoolVar(&merge, "merge", false, "import a layout of several repositories into the one repository")
	return cmd
}

// importLayout imports a layout as one of the writers of the storage.
func (e *environment) importLayout(cmd *cobra.Command, path string, name oci.Name, o ocilayout.ImportOptions, asJSON bool) error {
	if e.Cache != nil && e.Cache.Caches(name) {
		return fmt.Errorf("%s is a cache of another registry and takes no imports", name)
	}
	leave, err := e.Join(cmd.Context())
	if err != nil {
		return err
	}
	defer leave()
	report, err := ocilayout.Import(cmd.Context(), path, e.Rules.Repository(name), o)
	if errors.Is(err, ocilayout.ErrSeveral) {
		return fmt.Errorf("%w; --merge imports them into %s", err, name)
	}
	if err != nil {
		return err
	}
	return printCarried(cmd, "imported", report, asJSON)
}
