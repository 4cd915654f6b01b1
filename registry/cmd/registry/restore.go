package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/ocilayout"
	"slipway/registry/internal/registry"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newRestoreCommand returns the `registry restore` command.
func newRestoreCommand() *cobra.Command {
	var list, asJSON bool
	var id string
	cmd := &cobra.Command{
		Use:   "restore REPOSITORY[:TAG][@DIGEST]",
		Short: "Undo the deletion of a tag, an image or a repository",
		Long: "Restores, within storage.delete.keep of the deletion, a tag with its image, " +
			"an image with the tags that pointed at it, or a deleted repository. It undoes the latest matching deletion, or the one named by --deletion. " +
			"With TAG@DIGEST it points the tag at an earlier image that the repository still has, even if the tag exists. A registry may serve meanwhile. " +
			"--list alone lists the repositories from which something was deleted.",
		Args: func(cmd *cobra.Command, args []string) error {
			if list {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return onStorage(cmd, audit.Record{}, func(e *environment) error { return printAllDeleted(cmd, e.Registry, asJSON) })
			}
			name, selected, err := parseSelection(args[0])
			if err != nil {
				return command.Usage(err)
			}
			selected.Deletion = id
			if list {
				return onStorage(cmd, audit.Record{}, func(e *environment) error {
					return printDeleted(cmd, e.Registry.Repository(name), selected, asJSON)
				})
			}
			act := audit.Record{Event: "restore", Repository: string(name), Reference: string(selected.Tag), Digest: string(selected.Digest)}
			return onStorage(cmd, act, func(e *environment) error {
				leave, err := e.Join(cmd.Context())
				if err != nil {
					return err
				}
				defer leave()
				restored, err := e.Registry.Repository(name).By("command line").Restore(cmd.Context(), selected)
				if err != nil {
					return explainRestore(err)
				}
				err = command.Report(cmd, asJSON, restored, func(out io.Writer) error { return printRestored(out, restored) })
				if n := len(restored.Failed); n > 0 {
					err = errors.Join(err, fmt.Errorf("%s could not be restored", plural.Of(n, "manifest")))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&list, "list", "l", false, "only show what can be restored; for a tag, its earlier images")
	cmd.Flags().StringVar(&id, "deletion", "", "ID of the deletion to undo, as --list shows it")
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

// parseSelection reads REPO, REPO:TAG, REPO@DIGEST or REPO:TAG@DIGEST.
func parseSelection(s string) (oci.Name, registry.Selection, error) {
	item, err := ocilayout.ParseItem(s)
	if before, digest, both := strings.Cut(s, "@"); both && strings.Contains(before, ":") {
		if item, err = ocilayout.ParseItem(before); err == nil {
			item.Ref.Digest, err = oci.ParseDigest(digest)
		}
	}
	return item.Name, registry.Selection{Tag: item.Ref.Tag, Digest: item.Ref.Digest}, err
}

func explainRestore(err error) error {
	if e := (*oci.Error)(nil); errors.As(err, &e) && e.Message != "" {
		text := errors.New(e.Message)
		if e.Code == oci.CodeDenied || e.Code == oci.CodeUnsupported {
			return command.Refused(text)
		}
		return text
	} else if detail, ok := detailOf(e); ok {
		return errors.New(detail)
	}
	return err
}

// detailOf returns the detail of an error about something that doesn't exist.
func detailOf(e *oci.Error) (detail string, ok bool) {
	if e != nil && oci.IsUnknown(e) {
		detail, ok = e.Detail.(string)
	}
	return detail, ok
}

// deletedIn is a repository with its latest deletion.
type deletedIn struct {
	Repository oci.Name          `json:"repository"`
	Latest     registry.Deletion `json:"latest"`
}

// printAllDeleted lists the repositories with deletions that can be undone.
func printAllDeleted(cmd *cobra.Command, reg *registry.Registry, asJSON bool) error {
	names, err := reg.Deleted(cmd.Context(), 0, nil)
	if err != nil {
		return err
	}
	all := []deletedIn{}
	for _, name := range names {
		latest, err := reg.Repository(name).Deletions(cmd.Context(), 1)
		if err != nil {
			return err
		}
		if len(latest) > 0 {
			all = append(all, deletedIn{name, latest[0]})
		}
	}
	return command.Report(cmd, asJSON, map[string]any{"repositories": all}, func(out io.Writer) error {
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "REPOSITORY\tLATEST\tUNTIL\tBY\tCONTENT")
		for _, d := range all {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", d.Repository, minutes(d.Latest.At), minutes(d.Latest.Until), d.Latest.By, describeDeletion(&d.Latest))
		}
		return t.Flush()
	})
}

func printRestored(out io.Writer, r registry.Restored) error {
	for _, tag := range slices.Sorted(maps.Keys(r.Tags)) {
		fmt.Fprintf(out, "%s %s\n", tag, r.Tags[tag])
	}
	for _, tag := range slices.Sorted(maps.Keys(r.Left)) {
		fmt.Fprintf(out, "%s was pushed again and stays at %s\n", tag, r.Left[tag])
	}
	for _, d := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(out, "%s stays deleted: %s\n", d, r.Failed[d])
	}
	_, err := fmt.Fprintf(out, "%s and %s restored\n", plural.Of(len(r.Manifests), "manifest"), plural.Of(len(r.Tags), "tag"))
	return err
}

func printDeleted(cmd *cobra.Command, repo registry.Repository, selected registry.Selection, asJSON bool) error {
	out := cmd.OutOrStdout()
	all, err := repo.Deletions(cmd.Context(), 0)
	if err != nil {
		return explainRestore(err)
	}
	all = slices.DeleteFunc(all, func(d registry.Deletion) bool {
		_, hasTag := d.Tags[selected.Tag]
		return selected.Tag != "" && !hasTag || selected.Digest != "" && !slices.Contains(d.Manifests, selected.Digest) ||
			selected.Deletion != "" && selected.Deletion != d.ID
	})
	var history []registry.Target
	if selected.Tag != "" {
		history, err = repo.History(cmd.Context(), selected.Tag)
		if err != nil && !oci.IsUnknown(err) {
			return explainRestore(err)
		}
	}
	if asJSON {
		return command.WriteJSON(out, struct {
			Deleted []registry.Deletion `json:"deleted"`
			History []registry.Target   `json:"history,omitempty"`
		}{all, history})
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DELETED\tUNTIL\tBY\tDELETION\tCONTENT")
	for _, d := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", minutes(d.At), minutes(d.Until), d.By, d.ID, describeDeletion(&d))
	}
	if len(history) > 0 {
		fmt.Fprintln(t, "\nPUSHED\tBY\tDIGEST\tNOW")
	}
	for _, h := range history {
		state := "available"
		if h.Current {
			state = "current"
		} else if !h.Available {
			state = "gone"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", minutes(h.At), h.By, h.Digest, state)
	}
	return t.Flush()
}

func minutes(at time.Time) string { return at.Local().Format("2006-01-02 15:04") }

// describeDeletion names a deletion's tags if there are few.
func describeDeletion(d *registry.Deletion) string {
	var parts []string
	if d.Repository {
		parts = append(parts, "the repository")
	}
	if len(d.Manifests) > 0 {
		parts = append(parts, plural.Of(len(d.Manifests), "manifest"))
	}
	names := slices.Sorted(maps.Keys(d.Tags))
	switch {
	case len(names) > 5:
		parts = append(parts, plural.Of(len(names), "tag"))
	default:
		for _, tag := range names {
			parts = append(parts, "tag "+string(tag))
		}
	}
	return strings.Join(parts, ", ")
}
