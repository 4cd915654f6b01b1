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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"slipway/registry/internal/collect"
	"slipway/registry/internal/config"
	"slipway/registry/internal/driver"
)

// gcFlags are those of CNCF distribution, and ours.
type gcFlags struct {
	dryRun, deleteUntagged, quiet, json bool
	age                                 time.Duration
}

func newGarbageCollectCommand() *cobra.Command {
	var flags gcFlags
	cmd := &cobra.Command{
		Use:   "garbage-collect [FILE]",
		Short: "Free the bytes that no manifest needs any more",
		Long: "Frees the bytes that no manifest needs any more, on the storage of the file, or of the one that " + config.PathVariable +
			" names. Registries may serve it and clients may push meanwhile, but not to a registry of CNCF distribution on the same storage.\n\n" +
			"Beside a registry that serves, blobs and manifests that a client was told of stay for storage.maintenance.gc.age, unless " +
			"what needed them was deleted since.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := loadForPeople(cmd, args)
			if err != nil {
				return err
			}
			o := collect.Options{Age: cfg.Storage.Maintenance.GC.Age, DeleteUntagged: flags.deleteUntagged, DryRun: flags.dryRun}
			if cmd.Flags().Changed("age") {
				o.Age, o.KeepAge = flags.age, true
			}
			return garbageCollect(cmd.Context(), cfg, o, flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVarP(&flags.dryRun, "dry-run", "d", false, "only tell what would be freed")
	cmd.Flags().BoolVarP(&flags.deleteUntagged, "delete-untagged", "m", false, "take manifests too that no tag leads to")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "write nothing to stdout")
	cmd.Flags().BoolVar(&flags.json, "json", false, "write a report as JSON to stdout, and nothing else")
	cmd.Flags().DurationVar(&flags.age, "age", 0, "how long to keep what a client was told of (default: as the configuration says; 0 where nobody serves)")
	return cmd
}

func garbageCollect(ctx context.Context, cfg *config.Config, o collect.Options, flags gcFlags, stdout, stderr io.Writer) error {
	if s := cfg.Storage.Filesystem; s != nil {
		if _, err := os.Stat(s.RootDirectory); err != nil {
			return fmt.Errorf("storage: %w", err)
		}
	}
	processors, end := hurry()
	defer end()
	o.Processors = processors
	store, err := openDriver(cfg)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	var told teller
	switch {
	case flags.json || flags.quiet:
		told.progress = isTerminal(stderr)
	default:
		told.lines = out
		told.progress = isTerminal(stderr) && !isTerminal(stdout)
	}
	told.status = stderr
	o.Driver = store
	if told.lines != nil || told.progress {
		o.Tell = told.tell
	}
	var report collect.Report
	if err = putBackTags(ctx, o); err == nil {
		report, err = collect.Run(ctx, o)
	}
	told.end()
	if err == nil || errors.Is(err, collect.ErrIncomplete) {
		err = errors.Join(err, told.report(out, &report, flags))
	}
	switch {
	case errors.Is(err, driver.ErrBusy):
		err = errors.New("another garbage collection is under way on this storage")
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: run this as the user whom the storage belongs to", err)
	}
	for _, p := range report.Problems {
		fmt.Fprintf(stderr, "%s: left alone: %s%s\n", cmp.Or(p.Repository, "storage"), prefixed(string(p.Manifest), " "), p.Error)
	}
	return errors.Join(err, out.Flush(), store.Close())
}

// hurry fits the runtime to a command that mostly waits for the file system: a
// thread that waits in the kernel keeps its place among those that may run until
// the runtime takes it away, so there are twice as many places as processors. The
// end undoes it.
func hurry() (processors int, end func()) {
	processors = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(2 * processors)
	return processors, func() { runtime.GOMAXPROCS(processors) }
}

func prefixed(s, sep string) string {
	if s == "" {
		return ""
	}
	return s + sep
}

// teller writes the steps of a collection in the lines of CNCF distribution, or
// how far it is to a terminal.
type teller struct {
	lines    *bufio.Writer // nil = none
	progress bool
	status   io.Writer
	shown    time.Time

	repositories, manifests, oldManifests, oldBlobs, marked int64
}

func (t *teller) tell(e collect.Event) {
	switch e.Kind {
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
		fmt.Fprintf(t.status, "\r%d repositories, %d manifests; %d manifests and %d blobs to free ", t.repositories, t.manifests, t.oldManifests, t.oldBlobs)
	}
}

// line writes one, whose errors show when the writer is flushed.
func (t *teller) line(format string, args ...any) {
	if t.lines != nil {
		fmt.Fprintf(t.lines, format, args...)
	}
}

// end clears the line of the progress.
func (t *teller) end() {
	if t.progress && !t.shown.IsZero() {
		fmt.Fprint(t.status, "\r\x1b[K")
	}
}

// report writes the summary. Its last line is distribution's.
func (t *teller) report(out io.Writer, report *collect.Report, flags gcFlags) error {
	if flags.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	freed := "freed"
	if report.DryRun {
		freed = "to free"
	}
	kept := &report.Kept
	t.line("\n%d blobs with %s found in %d repositories; %d with %s %s in %s\n", report.Blobs.Found, size(report.Bytes.Found),
		report.Repositories, report.Blobs.Freed, size(report.Bytes.Freed), freed, report.Duration.Round(time.Millisecond))
	t.line("%d blobs with %s kept: %s needed by manifests, %s promised to clients, %s of repositories left alone\n", report.Blobs.Kept, size(report.Bytes.Kept),
		size(kept.Needed.Bytes), size(kept.Promised.Bytes), size(kept.Withheld.Bytes))
	t.line("%d blobs marked, %d blobs and %d manifests eligible for deletion\n", t.marked, t.oldBlobs, t.oldManifests)
	return nil
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(n), 0
	for ; value >= 1024 && unit < len(units)-1; unit++ {
		value /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
