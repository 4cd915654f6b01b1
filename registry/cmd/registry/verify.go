package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance"
	"slipway/registry/internal/maintenance/verify"
	"slipway/registry/internal/storage"
	"slipway/shared/command"
	settings "slipway/shared/config"
	"slipway/shared/plural"
)

// newVerifyCommand returns the `registry verify` command.
func newVerifyCommand() *cobra.Command {
	var repair, asJSON, restart bool
	var rate string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check all blobs against their digests and all links",
		Long: "Checks each blob against its digest, and finds dangling links and tags and incomplete manifests. " +
			"A registry may serve meanwhile. The next run resumes an interrupted one. Exits with 1 if problems remain.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var limit settings.Size
			if err := limit.UnmarshalText([]byte(rate)); err != nil {
				return command.Usage(fmt.Errorf("--rate: %w", err))
			}
			return onStorage(cmd, unlessDry(!repair, commandAct(cmd)), func(e *environment) error {
				o := maintenance.VerifyOptions(e.Config)
				o.Partial = e.Caches()
				o.Store, o.Log, o.Rate, o.Repair, o.Restart = e.Store, zap.NewNop(), int64(limit), repair, restart
				report, err := verify.Run(cmd.Context(), o)
				interrupted := err != nil && cmd.Context().Err() != nil
				if interrupted {
					err = errInterrupted(cmd.Context(), e.Store)
				}
				err = errors.Join(err, command.Report(cmd, asJSON, report, func(out io.Writer) error {
					return printVerification(out, report, hint(interrupted, "interrupted; so far "))
				}))
				return errors.Join(err, report.ErrFound())
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "quarantine damaged blobs and dangling links, so that pushes repair them")
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&restart, "restart", false, "do not resume an interrupted verification")
	cmd.Flags().StringVar(&rate, "rate", "0", "bytes read per second at most, such as 50MiB; 0 = no limit")
	return cmd
}

// errInterrupted returns an error that describes what the next run does.
func errInterrupted(ctx context.Context, s storage.Store) error {
	if _, err := s.Stat(context.WithoutCancel(ctx), layout.Verified); err != nil {
		return errors.New("interrupted; the next run starts over")
	}
	return errors.New("interrupted; the next run resumes the check of the blobs, or starts over with --restart")
}

// printVerification writes a report, its summary after a prefix.
func printVerification(out io.Writer, r *verify.Report, prefix string) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		where := string(f.Repository)
		if f.Tag != "" {
			where += ":" + string(f.Tag)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Kind, where, f.Digest, details(f))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Resumed {
		fmt.Fprintf(out, "resumed a verification that began at %s\n", r.Started.Format("2006-01-02 15:04:05 MST"))
	}
	_, err := fmt.Fprintf(out, "%s%s, %s, %s, %s with %s verified; %s found, %d quarantined\n",
		prefix, plural.Of(r.Repositories, "repository"), plural.Of(r.Tags, "tag"), plural.Of(r.Manifests, "manifest"), plural.Of(r.Blobs, "blob"), bytesize.Text(r.Bytes),
		plural.Of(r.Open()+r.Quarantined, "problem"), r.Quarantined)
	if r.Quarantined > 0 {
		_, err = fmt.Fprintf(out, "quarantined objects are kept below %s on the storage\n", layout.Quarantine)
	}
	return err
}

func details(f verify.Finding) string {
	text := f.Detail
	if f.By != "" {
		text += ", needed by " + string(f.By)
	}
	if f.Quarantine != "" {
		text += ", quarantined"
	}
	if len(text) > 2 && text[:2] == ", " {
		text = text[2:]
	}
	return text
}
