package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/usage"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/shared/command"
	"slipway/shared/duration"
	"slipway/shared/plural"
)

// newUploadsCommand returns the `registry uploads` command, which lists and deletes
// unfinished uploads.
func newUploadsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uploads",
		Short: "List or delete unfinished uploads",
	}
	cmd.AddCommand(newUploadsListCommand(), newUploadsDeleteCommand())
	return cmd
}

func newUploadsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List unfinished uploads",
		Long:  "Lists unfinished uploads with their size and the time of their last byte. It changes nothing, and a registry may serve meanwhile.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onStorage(cmd, audit.Record{}, func(e *environment) error {
				uploads, err := e.uploads(cmd)
				return errors.Join(err, command.Report(cmd, asJSON, uploads, func(out io.Writer) error { return printUnfinished(out, uploads, err == nil) }))
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

// printUnfinished writes the list, or that there are none. It notes
// if the list is incomplete.
func printUnfinished(out io.Writer, uploads []registry.UnfinishedUpload, complete bool) error {
	switch {
	case !complete:
		return printUploads(out, uploads, "unfinished in the repositories that can be read; the rest is unknown")
	case len(uploads) == 0:
		_, err := fmt.Fprintln(out, noUploads)
		return err
	default:
		return printUploads(out, uploads, "unfinished")
	}
}

const noUploads = "there are no unfinished uploads"

// uploads returns the unfinished uploads that can be read; the error counts the repositories that cannot.
func (e *environment) uploads(cmd *cobra.Command) ([]registry.UnfinishedUpload, error) {
	uploads, skipped := []registry.UnfinishedUpload{}, map[oci.Name]bool{}
	for u, err := range e.Registry.Uploads(cmd.Context()) {
		if cmd.Context().Err() != nil {
			return uploads, cmd.Context().Err()
		}
		switch {
		case err == nil:
			uploads = append(uploads, u)
		case !skipped[u.Repository]:
			skipped[u.Repository] = true
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: skipped: %s\n", u.Repository, usage.Cause(err))
		}
	}
	if len(skipped) > 0 {
		return uploads, fmt.Errorf("%s cannot be read", plural.Of(len(skipped), "repository"))
	}
	return uploads, nil
}

func newUploadsDeleteCommand() *cobra.Command {
	var asJSON, dryRun bool
	var age time.Duration
	cmd := &cobra.Command{
		Use:        "delete",
		SuggestFor: []string{"purge", "remove"},
		Short:      "Delete abandoned uploads",
		Long: "Deletes uploads that received nothing for storage.maintenance.uploadpurging.age or --age, whether or not uploadpurging is enabled. " +
			"A registry may serve meanwhile; with --age 0, its uploads in progress fail.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notNegative("--age", age); err != nil {
				return err
			}
			if !dryRun {
				if err := command.Confirm(cmd, "Delete the uploads that nobody continues?"); err != nil {
					return err
				}
			}
			return onStorage(cmd, unlessDry(dryRun, commandAct(cmd)), func(e *environment) error {
				o := registry.PurgeOptions{Age: e.Config.Storage.Maintenance.UploadPurging.Age, DryRun: dryRun}
				if cmd.Flags().Changed("age") {
					o.Age = age
				}
				report, err := e.Registry.PurgeUploads(cmd.Context(), o)
				if report.Errors > 0 {
					err = errors.Join(err, fmt.Errorf("some uploads or repositories cannot be read or deleted (%d); the log names them", report.Errors))
				}
				purged := append([]registry.UnfinishedUpload{}, report.Purged...)
				return errors.Join(err, command.Report(cmd, asJSON, purged, func(out io.Writer) error { return printPurge(out, &report, o) }))
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	command.DryRunFlag(cmd, &dryRun)
	command.YesFlag(cmd)
	command.DurationFlag(cmd.Flags(), &age, "age", 0, "time without activity, such as 24h (default: as the configuration says)")
	return cmd
}

func printUploads(out io.Writer, uploads []registry.UnfinishedUpload, state string) error {
	var bytes int64
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(uploads) > 0 {
		fmt.Fprintln(t, "BYTES\tLAST BYTE\tREPOSITORY\tUPLOAD")
	}
	for _, u := range uploads {
		bytes += u.Size
		last := "unknown"
		if at := cmp.Or(u.Modified, u.Started); !at.IsZero() {
			last = at.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", bytesize.Text(u.Size), last, u.Repository, u.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s with %s %s\n", plural.Of(len(uploads), "upload"), bytesize.Text(bytes), state)
	return err
}

// printPurge reports what was removed or, if nothing was, why.
func printPurge(out io.Writer, r *registry.PurgeReport, o registry.PurgeOptions) error {
	age := duration.Format(o.Age)
	switch {
	case len(r.Purged) > 0:
		state := "deleted"
		if o.DryRun {
			state = "to delete"
		}
		if r.Kept > 0 {
			state += fmt.Sprintf("; %s younger than %s kept", plural.Of(r.Kept, "upload"), age)
		}
		return printUploads(out, r.Purged, state)
	case r.Errors > 0: // the error describes what happened
		return nil
	case r.Kept > 0:
		_, err := fmt.Fprintf(out, "nothing to delete: no upload is older than %s; %s kept (--age sets another age)\n", age, plural.Of(r.Kept, "younger upload"))
		return err
	default:
		_, err := fmt.Fprintln(out, "nothing to delete: "+noUploads)
		return err
	}
}
