package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/collect"
	"slipway/registry/internal/config"
	"slipway/registry/internal/driver"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/retention"
	"slipway/registry/internal/schedule"
	"slipway/registry/internal/verify"
	"slipway/shared/logging"
)

// workshop is the storage as a command sees it that works on it beside the
// server, or instead of it.
type workshop struct {
	cfg   *config.Config
	log   *zap.Logger
	store driver.Driver
	rules *registry.Registry
	lines *logging.Buffer
}

// openWorkshop opens the storage that the configuration names. The log goes to
// stderr.
func openWorkshop(cmd *cobra.Command, file string) (*workshop, error) {
	cfg, report, err := config.Load(file, os.Environ())
	if err != nil {
		return nil, err
	}
	if fs := cfg.Storage.Filesystem; fs != nil { // a driver would make it
		if _, err := os.Stat(fs.RootDirectory); err != nil {
			return nil, fmt.Errorf("storage: %w", err)
		}
	}
	w := &workshop{cfg: cfg, lines: logging.NewBuffer(cmd.ErrOrStderr())}
	w.log, err = logging.New(w.lines, logging.Config{
		Level: cfg.Log.Level, Format: logging.Format(cfg.Log.Formatter), Fields: cfg.Log.Fields, ReportCaller: cfg.Log.ReportCaller,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range report.Warnings {
		w.log.Warn(warning)
	}
	if w.store, err = openStorage(cfg, w.log, nil); err != nil {
		return nil, err
	}
	w.rules = registry.New(registryOptions(cfg, w.store, w.log))
	return w, nil
}

// close lets go of the storage and writes what is left of the log.
func (w *workshop) close() error { return errors.Join(w.store.Close(), w.lines.Close()) }

// writeJSON writes a report for machines.
func writeJSON(out io.Writer, report any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// maintenance is the work on the storage that goes on while it is served.
type maintenance struct {
	cfg     *config.Config
	store   driver.Driver
	rules   *registry.Registry
	pulls   *pulls.File
	log     *zap.Logger
	metrics *prometheus.Registry // nil = nobody asks

	trouble string // that was logged last, see recover
}

// start starts what the configuration turns on. What deletes takes turns; a
// verification, which may take days, goes on beside it.
func (m *maintenance) start(ctx context.Context, group *sync.WaitGroup) {
	work := &m.cfg.Storage.Maintenance
	if work.ReadOnly.Enabled {
		return
	}
	m.recoverAtStart(ctx)
	group.Go(func() { schedule.Every(ctx, recoverEvery, nil, m.recover) })
	turn := schedule.NewTurn()
	if p := work.UploadPurging; p.Enabled {
		group.Go(func() { schedule.Every(ctx, p.Interval, turn, m.purge) })
	}
	if work.Retention.Enabled {
		metrics := measured(m.metrics, retention.NewMetrics)
		group.Go(func() { schedule.Every(ctx, work.Retention.Interval, turn, m.retain(metrics)) })
	}
	if work.GC.Enabled {
		metrics := measured(m.metrics, collect.NewMetrics)
		group.Go(func() { schedule.Every(ctx, work.GC.Interval, turn, m.collect(metrics)) })
	}
	if work.Verify.Enabled {
		metrics := measured(m.metrics, verify.NewMetrics)
		group.Go(func() { schedule.Every(ctx, work.Verify.Interval, nil, m.verify(metrics)) })
	}
}

// recoverEvery is the time between two looks for what a process has left in the
// middle that died: another server, or a command. They cost a look for three
// directories that are mostly missing.
const recoverEvery = time.Minute

// recoverWait bounds for how long a start waits for other processes, to tell
// what they are at from what dead ones have left. The next look waits longer.
const recoverWait = 5 * time.Second

// recoverAtStart mends what a process has left in the middle that died, before the
// first request is answered.
func (m *maintenance) recoverAtStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoverWait)
	defer cancel()
	m.recover(ctx)
}

// recover says once what cannot be mended.
func (m *maintenance) recover(ctx context.Context) {
	m.rules.Recover(ctx)
	trouble := ""
	if err := verify.Recover(ctx, m.store); err != nil && ctx.Err() == nil {
		trouble = err.Error()
	}
	if trouble != "" && trouble != m.trouble {
		m.log.Warn("what a dead verification had in its hands is not put back yet", zap.String("error", trouble))
	}
	m.trouble = trouble
}

func (m *maintenance) purge(ctx context.Context) {
	p := m.cfg.Storage.Maintenance.UploadPurging
	m.rules.RunPurge(ctx, registry.PurgeOptions{Age: p.Age, DryRun: p.DryRun})
}

func (m *maintenance) retain(metrics *retention.Metrics) func(context.Context) {
	r := m.cfg.Storage.Maintenance.Retention
	o := retention.Options{Driver: m.store, Registry: m.rules, Rules: retentionRules(r.Rules), Pulls: m.pulls}
	return func(ctx context.Context) { retention.Run(ctx, o, r.DryRun, m.log, metrics) }
}

func (m *maintenance) collect(metrics *collect.Metrics) func(context.Context) {
	gc := m.cfg.Storage.Maintenance.GC
	o := collect.Options{Driver: m.store, Log: m.log, Age: gc.Age, DeleteUntagged: gc.DeleteUntagged, DryRun: gc.DryRun}
	return func(ctx context.Context) {
		if err := putBackTags(ctx, o); err != nil {
			m.log.Error("garbage is not collected: tags that dead processes had in their hands cannot be put back", zap.Error(err))
			return
		}
		collect.RunScheduled(ctx, o, metrics)
	}
}

// putBackTags puts back the tags that processes had in their hands that died: a
// collection that sees no tag takes the manifest for untagged.
func putBackTags(ctx context.Context, o collect.Options) error {
	if o.DryRun || !o.DeleteUntagged {
		return nil
	}
	return errors.Join(registry.New(registry.Options{Driver: o.Driver}).RecoverTags(ctx), verify.Recover(ctx, o.Driver))
}

func (m *maintenance) verify(metrics *verify.Metrics) func(context.Context) {
	o := verifyOptions(m.cfg)
	o.Driver, o.Log = m.store, m.log
	return func(ctx context.Context) { verify.RunScheduled(ctx, o, metrics) }
}

// openPulls begins a book of pulls if a rule asks for them; else it is nil.
func openPulls(cfg *config.Maintenance, file *pulls.File, log *zap.Logger) *pulls.Book {
	if cfg.ReadOnly.Enabled {
		return nil
	}
	for _, rule := range cfg.Retention.Rules {
		if rule.PulledWithin > 0 {
			return pulls.Open(file, log)
		}
	}
	return nil
}
