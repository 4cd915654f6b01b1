package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/ocilayout"
	"slipway/registry/internal/registry"
	"slipway/shared/command"
)

// newImportCommand returns the `registry import` command.
func newImportCommand() *cobra.Command {
	var o ocilayout.ImportOptions
	var asJSON, spread bool
	cmd := &cobra.Command{
		Use:   "import SOURCE REPOSITORY[:TAG]",
		Short: "Import an OCI layout into a repository",
		Long: "Imports an OCI layout, a directory or a tar file, into the repository. The rules of pushes apply: an import can't move " +
			"an immutable tag. Stored blobs are not copied again. A registry may serve meanwhile.\n\n" +
			"A layout of several repositories is refused unless --merge or --spread is set, because equal tags would replace each other. " +
			"A layout that names no tag needs TAG, which is for its only image.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			item, err := ocilayout.ParseItem(args[1])
			if err == nil && item.Ref.Digest != "" {
				err = fmt.Errorf("%s: import takes a tag, not a digest", args[1])
			}
			if o.Tag = item.Ref.Tag; err == nil && o.Tag != "" && spread {
				err = errors.New("a tag is for one image; --spread takes several")
			}
			if err != nil {
				return command.Usage(err)
			}
			act := commandAct(cmd)
			act.Repository = string(item.Name)
			return onStorage(cmd, act, func(e *environment) error {
				o.MaxManifest = int64(e.Config.Slipway.Manifests.MaxSize)
				if spread {
					o.Spread = func(repository string) (registry.Repository, error) {
						name, err := below(item.Name, repository)
						if err == nil {
							err = e.takesImports(name)
						}
						return e.Registry.Repository(name).By("command line"), err
					}
				}
				return e.importLayout(cmd, args[0], item.Name, o, asJSON)
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&o.Merge, "merge", false, "import a layout of several repositories into the one repository")
	cmd.Flags().BoolVar(&spread, "spread", false, "import each image into a repository of its own: REPOSITORY/NAME, where NAME is as in the layout, without the host")
	cmd.Flags().BoolVar(&o.Untagged, "untagged", false, "import a layout that names no tag; its images can be pulled by digest")
	return cmd
}

// below returns the repository here for one in a layout, whose name may begin with the host of
// a registry.
func below(parent oci.Name, repository string) (oci.Name, error) {
	host, rest, ok := strings.Cut(repository, "/")
	if ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		repository = rest
		if host == "docker.io" {
			repository = strings.TrimPrefix(rest, "library/")
		}
	}
	return oci.ParseName(string(parent) + "/" + repository)
}

// takesImports returns nil unless the repository is a cache.
func (e *environment) takesImports(name oci.Name) error {
	if e.Cache != nil && e.Cache.Caches(name) {
		return fmt.Errorf("%s is a cache of another registry and takes no imports", name)
	}
	return nil
}

// importLayout imports a layout as one of the writers of the storage.
func (e *environment) importLayout(cmd *cobra.Command, path string, name oci.Name, o ocilayout.ImportOptions, asJSON bool) error {
	if err := e.takesImports(name); err != nil && o.Spread == nil {
		return err
	}
	leave, err := e.Join(cmd.Context())
	if err != nil {
		return err
	}
	defer leave()
	report, err := ocilayout.Import(cmd.Context(), path, e.Registry.Repository(name).By("command line"), o)
	if errors.Is(err, ocilayout.ErrSeveral) {
		return fmt.Errorf("%w; --merge imports them into %s, --spread each into a repository below it", err, name)
	}
	if errors.Is(err, ocilayout.ErrUntagged) {
		return fmt.Errorf("%w; write %s:TAG, or --untagged to pull by digest", err, name)
	}
	if err != nil {
		return err
	}
	return printCarried(cmd, "imported", report, asJSON)
}
