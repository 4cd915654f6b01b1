package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/storage"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// gcFlags holds the flags of CNCF distribution and Slipway's own.
type gcFlags struct {
	dryRun, deleteUntagged, purgeDeleted, quiet, json bool
	age                                               time.Duration
}

func newGarbageCollectCommand() *cobra.Command {
	var flags gcFlags
	cmd := &cobra.Command{
		Use:   "garbage-collect [FILE]",
		Short: "Free the bytes that no manifest needs any more",
		Long: "Deletes unneeded blobs from the storage of the configuration FILE, or of --config. Registries may serve and clients may push meanwhile. Stop any CNCF distribution on the same storage first.\n\n" +
			"While a registry serves, blobs that clients pushed or asked for with HEAD are kept for two minutes, or for " +
			"storage.maintenance.gc.age in repositories with an unfinished upload that began within that time. While none serves a file system, everything unneeded is freed.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notNegative("--age", flags.age); err != nil {
				return err
			}
			cfg, err := loadForPeople(cmd, args)
			if err != nil {
				return err
			}
			o := collect.Options{Age: cfg.Storage.Maintenance.GC.Age, IdleAge: idleAge, DeleteUntagged: flags.deleteUntagged, PurgeDeleted: flags.purgeDeleted, DryRun: flags.dryRun}
			if cmd.Flags().Changed("age") {
				o.Age, o.IdleAge, o.KeepAge = flags.age, 0, true
			}
			collect := func(*audit.Log) error {
				return garbageCollect(cmd.Context(), cfg, o, flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if flags.dryRun {
				return collect(nil)
			}
			return audited(cmd, cfg, zap.NewNop(), commandAct(cmd), collect)
		},
	}
	cmd.Flags().BoolVarP(&flags.dryRun, "dry-run", "d", false, "only show what would be freed; nothing on the storage is changed")
	cmd.Flags().BoolVarP(&flags.deleteUntagged, "delete-untagged", "m", false, "also delete untagged manifests")
	cmd.Flags().BoolVar(&flags.purgeDeleted, "purge-deleted", false, "also free what could still be restored, unless it is recent")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "write nothing to stdout")
	cmd.Flags().BoolVar(&flags.json, "json", false, "write the result as JSON, and nothing else to stdout")
	command.DurationFlag(cmd.Flags(), &flags.age, "age", 0, "how long to keep what a client pushed or asked for with HEAD (default: see above)")
	return cmd
}

// idleAge is the grace period of repositories without a recent unfinished upload. An attempt of
// a writer and the error of the clocks are added, so that two minutes after its last use a blob
// can be freed.
const idleAge = 2*time.Minute - storage.AttemptLimit - 2*storage.ClockError

func garbageCollect(ctx context.Context, cfg *config.Config, o collect.Options, flags gcFlags, stdout, stderr io.Writer) error {
	defer doubleGOMAXPROCS()()
	app.LimitMemory()
	if err := app.RootExists(cfg); err != nil {
		return err
	}
	store, err := app.OpenBackend(ctx, cfg, zap.NewNop(), built())
	if err != nil {
		return err
	}
	cache, err := app.CacheNames(cfg)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	if cache != nil {
		defer cache.Close()
		o.KeepUntagged = cache.Caches
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	var p printer
	switch {
	case flags.json || flags.quiet:
		p.progress = isTerminal(stderr)
	default:
		p.lines = out
		p.progress = isTerminal(stderr) && !isTerminal(stdout)
	}
	p.status = stderr
	o.Store, o.Remote = store, store.Remote
	if p.lines != nil || p.progress {
		o.Tell = p.event
	}
	report, err := collect.Run(ctx, o)
	p.end()
	if err == nil || errors.Is(err, collect.ErrIncomplete) {
		err = errors.Join(err, p.report(out, &report, o, flags))
	}
	for _, problem := range report.Problems {
		fmt.Fprintf(stderr, "%s: skipped: %s%s\n", cmp.Or(problem.Repository, "storage"), prefixed(string(problem.Manifest), ": "), problem.Error)
	}
	return errors.Join(explainCollection(err), out.Flush(), store.Close())
}

// explainCollection describes what to do about a collection that failed.
func explainCollection(err error) error {
	switch {
	case errors.Is(err, storage.ErrBusy):
		return errors.New("another garbage collection is running on this storage")
	case errors.Is(err, storage.ErrNoSpace):
		return fmt.Errorf("the storage is full: stop the registries that serve it and collect again: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run the command as the user that owns the storage", err)
	default:
		return err
	}
}

// doubleGOMAXPROCS doubles GOMAXPROCS for a command that spends most of its time in system calls,
// because a goroutine in a system call occupies a processor until the scheduler retakes it. The
// returned function restores the old value.
func doubleGOMAXPROCS() (end func()) {
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(2 * processors)
	return func() { runtime.GOMAXPROCS(processors) }
}

func prefixed(s, sep string) string {
	if s == "" {
		return ""
	}
	return s + sep
}

// printer writes the steps of a collection as CNCF distribution does, or its progress
// to a terminal.
type printer struct {
	lines    *bufio.Writer // nil = none
	progress bool
	status   io.Writer
	shown    time.Time

	repositories, manifests, oldManifests, oldBlobs, marked int64
}

func (t *printer) event(e collect.Event) {
	switch e.Kind {
	case collect.Waiting:
		fmt.Fprintln(t.status, "waiting, usually two minutes, until requests of registries that use the storage have ended")
	case collect.Repository:
		t.repositories++
		t.line("%s\n", e.Repository)
	case collect.Manifest:
		t.manifests++
		t.line("%s: marking manifest %s \n", e.Repository, e.Digest)
	case collect.Blob:
		t.line("%s: marking blob %s\n", e.Repository, e.Digest)
	case collect.OldManifest:
		t.oldManifests++
		t.line("manifest eligible for deletion: %s\n", e.Digest)
	case collect.OldLayer:
		t.line("%s: layer link eligible for deletion: %s\n", e.Repository, e.Digest)
	case collect.Marked:
		t.marked = e.Marked
		t.line("\n")
	case collect.OldBlob:
		t.oldBlobs++
		t.line("blob eligible for deletion: %s\n", e.Digest)
	}
	if t.progress && time.Since(t.shown) > 200*time.Millisecond {
		t.shown = time.Now()
		fmt.Fprintf(t.status, "\r%s, %s; %s and %s to free ",
			plural.Of(t.repositories, "repository"), plural.Of(t.manifests, "manifest"), plural.Of(t.oldManifests, "manifest"), plural.Of(t.oldBlobs, "blob"))
	}
}

// line writes a line. Flushing the writer returns its errors.
func (t *printer) line(format string, args ...any) {
	if t.lines != nil {
		fmt.Fprintf(t.lines, format, args...)
	}
}

// end clears the line of the progress.
func (t *printer) end() {
	if t.progress && !t.shown.IsZero() {
		fmt.Fprint(t.status, "\r\x1b[K")
	}
}

// report writes the summary. Its last line is distribution's.
func (t *printer) report(out io.Writer, report *collect.Report, o collect.Options, flags gcFlags) error {
	if flags.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	t.line("\n%s (%s) found in %s\n", plural.Of(report.Blobs.Found, "blob"), bytesize.Text(report.Bytes.Found), plural.Of(report.Repositories, "repository"))
	switch {
	case report.Blobs.Freed == 0:
		t.line("nothing to free\n")
	case report.DryRun:
		t.line("%s (%s) to free\n", plural.Of(report.Blobs.Freed, "blob"), bytesize.Text(report.Bytes.Freed))
	default:
		t.line("freed %s (%s) in %s\n", plural.Of(report.Blobs.Freed, "blob"), bytesize.Text(report.Bytes.Freed), report.Duration.Round(time.Millisecond))
	}
	if report.Blobs.Kept > 0 {
		t.line("kept %s (%s): %s\n", plural.Of(report.Blobs.Kept, "blob"), bytesize.Text(report.Bytes.Kept), reasons(&report.Kept, o))
	}
	t.line("%d blobs marked, %d blobs and %d manifests eligible for deletion\n", t.marked, t.oldBlobs, t.oldManifests)
	return nil
}

// reasons explains why bytes were kept, and what frees them.
func reasons(kept *collect.Reasons, o collect.Options) string {
	inUse := bytesize.Text(kept.InUse.Bytes) + " in use"
	if kept.Untagged.Blobs > 0 && !o.DeleteUntagged {
		inUse += fmt.Sprintf(" (%s by untagged manifests; --delete-untagged frees them)", bytesize.Text(kept.Untagged.Bytes))
	}
	all := []string{inUse}
	switch {
	case kept.Restorable.Blobs > 0 && o.PurgeDeleted:
		all = append(all, bytesize.Text(kept.Restorable.Bytes)+" deleted, but recent and restorable (a run with --purge-deleted frees them later, or with --age 0; then pushes in progress may fail)")
	case kept.Restorable.Blobs > 0:
		all = append(all, bytesize.Text(kept.Restorable.Bytes)+" deleted but restorable (--purge-deleted frees them)")
	}
	if kept.Recent.Blobs > 0 {
		all = append(all, bytesize.Text(kept.Recent.Bytes)+" recent (a run frees them later, or with --age 0; then pushes in progress may fail)")
	}
	if kept.Unreadable.Blobs > 0 {
		all = append(all, bytesize.Text(kept.Unreadable.Bytes)+" in unreadable repositories, skipped")
	}
	return strings.Join(all, ", ")
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
