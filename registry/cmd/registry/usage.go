package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/usage"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newUsageCommand returns the `registry usage` command.
func newUsageCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show how many bytes each repository takes",
		Long: "Shows for each repository the bytes of its blobs and manifests; OWN, the bytes unique to this repository; " +
			"and RESTORABLE, the bytes that only restorable deletions need. " +
			"The sum counts shared content once. Empty repositories are not listed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onStorage(cmd, audit.Record{}, func(e *environment) error {
				report, err := usage.Count(cmd.Context(), e.Store, e.Registry, app.Quotas(e.Config)...)
				if err != nil {
					return err
				}
				err = command.Report(cmd, asJSON, report, func(out io.Writer) error { return printUsage(out, report) })
				if err == nil && report.Incomplete {
					err = fmt.Errorf("%s cannot be read, or not all of it", plural.Of(len(report.Problems), "repository"))
				}
				return err
			})
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func printUsage(out io.Writer, r *usage.Report) error {
	slices.SortStableFunc(r.Repositories, func(a, b usage.Repository) int { return cmp.Compare(b.Bytes, a.Bytes) })
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	restorable := slices.ContainsFunc(r.Repositories, func(repo usage.Repository) bool { return repo.Restorable > 0 })
	fmt.Fprintln(t, "BYTES\tOWN\t"+hint(restorable, "RESTORABLE\t")+"TAGS\tMANIFESTS\tBLOBS\tREPOSITORY")
	for _, repo := range r.Repositories {
		own := bytesize.Text(repo.Own)
		if r.Incomplete {
			own = "unknown"
		}
		fmt.Fprintf(t, "%s\t%s\t%s%d\t%d\t%d\t%s\n", bytesize.Text(repo.Bytes), own, hint(restorable, bytesize.Text(repo.Restorable)+"\t"), repo.Tags, repo.Manifests, repo.Blobs, repo.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printQuotas(out, r.Quotas, hint(r.Incomplete, "at least ")); err != nil {
		return err
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(out, "not counted:", problem)
	}
	if r.Incomplete {
		_, err := fmt.Fprintf(out, "%s in %s and %s in %s in readable repositories; shared and unreferenced bytes are unknown\n",
			bytesize.Text(r.Bytes), plural.Of(r.Blobs, "blob"), bytesize.Text(r.Uploading), plural.Of(r.Uploads, "unfinished upload"))
		return err
	}
	fmt.Fprintf(out, "%s in %s, %s of them shared by repositories; %s more in %s that are in no repository\n",
		bytesize.Text(r.Bytes), plural.Of(r.Blobs, "blob"), bytesize.Text(r.Shared), bytesize.Text(r.Orphaned), plural.Of(r.Orphans, "blob"))
	_, err := fmt.Fprintf(out, "%s in %s%s\n", bytesize.Text(r.Uploading), plural.Of(r.Uploads, "unfinished upload"), hint(r.Uploads > 0, "; registry uploads delete removes abandoned ones"))
	return err
}

// printQuotas writes how much of each quota is used, after the prefix bound.
func printQuotas(out io.Writer, quotas []usage.Quota, bound string) error {
	if len(quotas) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "USED\tQUOTA\tPREFIX")
	for _, q := range quotas {
		fmt.Fprintf(t, "%s%s\t%s\t%s\n", bound, bytesize.Text(q.Bytes), bytesize.Text(q.Limit), q.Prefix)
	}
	return t.Flush()
}

// hint is text if it applies.
func hint(applies bool, text string) string {
	if !applies {
		return ""
	}
	return text
}
