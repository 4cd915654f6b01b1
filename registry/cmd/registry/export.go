package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/ocilayout"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newExportCommand returns the `registry export` command.
func newExportCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export REPOSITORY[:TAG|@DIGEST]... TARGET",
		Short: "Write repositories as an OCI layout",
		Long: "Writes the given tags or all tags of the repositories, with the images of indexes, signatures and other referrers, " +
			"as an OCI layout: a tar file if TARGET ends in .tar, otherwise a directory. Entries are named by tag or, with several repositories, REPOSITORY:TAG. " +
			"Each blob is checked against its digest. A registry may serve meanwhile.",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var items []ocilayout.Item
			for _, arg := range args[:len(args)-1] {
				item, err := ocilayout.ParseItem(arg)
				if err != nil {
					return command.Usage(err)
				}
				items = append(items, item)
			}
			return onStorage(cmd, audit.Record{}, func(e *environment) error {
				report, err := ocilayout.Export(cmd.Context(), e.Puller, items, args[len(args)-1])
				if err != nil {
					return err
				}
				return printCarried(cmd, "exported", report, asJSON)
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

// printCarried prints the content that was written to or read from a layout.
func printCarried(cmd *cobra.Command, done string, r imagecopy.Report, asJSON bool) error {
	return command.Report(cmd, asJSON, r, func(out io.Writer) error {
		for _, note := range r.Notes {
			fmt.Fprintln(out, "left out:", note)
		}
		_, err := fmt.Fprintf(out, "%s, %s, %s with %s %s\n", plural.Of(r.Tags, "tag"), plural.Of(r.Manifests, "manifest"), plural.Of(r.Blobs, "blob"), bytesize.Text(r.Bytes), done)
		return err
	})
}
