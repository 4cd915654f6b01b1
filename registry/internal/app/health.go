package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"slipway/registry/internal/config"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/registry"
	settings "slipway/shared/config"
	"slipway/shared/health"
)

// Intervals of the checks of a bucket that answers: each try is paid for. A failed operation brings the next check forward.
const (
	bucketReadCheck  = 5 * time.Minute
	bucketWriteCheck = 20 * time.Minute
)

// trouble requests a run of the storage checks after an operation has failed.
type trouble struct{ read, write chan struct{} }

func newTrouble() trouble { return trouble{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (t trouble) note() {
	for _, c := range []chan struct{}{t.read, t.write} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// healthChecks splits the storage's check: without reading nothing can be
// answered, without writing pulls continue.
func healthChecks(cfg *config.Config, remote bool, failed trouble, reg *registry.Registry, cache *proxy.Registry) []health.Check {
	var checks []health.Check
	if s := cfg.Health.StorageDriver; s.Enabled {
		name := "storagedriver_" + cfg.Storage.Drivers()[0]
		read := func(ctx context.Context) error { return explain(reg.Check(ctx, false)) }
		write := func(ctx context.Context) error { return explain(reg.Check(ctx, true)) }
		reading := health.Check{Name: name, Interval: s.Interval, Threshold: s.Threshold, Func: read}
		writing := health.Check{Name: name + "_write", Interval: s.Interval, Threshold: s.Threshold, Advisory: true, Func: write}
		if remote {
			reading.Relaxed, reading.Trouble = bucketReadCheck, failed.read
			writing.Interval = max(writing.Interval, time.Minute)
			writing.Relaxed, writing.Trouble = bucketWriteCheck, failed.write
		}
		checks = append(checks, reading)
		if !cfg.Storage.Maintenance.ReadOnly.Enabled {
			checks = append(checks, writing)
		}
	}
	for _, f := range cfg.Health.Files {
		checks = append(checks, health.Check{Name: f.File, Interval: f.Interval, Threshold: f.Threshold, Func: fileAbsent(f.File)})
	}
	for _, c := range cfg.Health.HTTP {
		checks = append(checks, health.Check{Name: settings.WithoutCredentials(c.URI), Interval: c.Interval, Timeout: cmp.Or(c.Timeout, c.Interval), Threshold: c.Threshold, Func: httpStatus(c.URI, c.StatusCode, c.Header())})
	}
	for _, c := range cfg.Health.TCP {
		checks = append(checks, health.Check{Name: c.Addr, Interval: c.Interval, Timeout: cmp.Or(c.Timeout, c.Interval), Threshold: c.Threshold, Func: tcpConnect(c.Addr)})
	}
	return named(append(checks, upstreamChecks(cache)...))
}

// explain describes briefly what keeps the storage from being used. The log has
// the cause.
func explain(err error) error {
	for _, e := range []struct {
		cause error
		text  string
	}{
		{syscall.ENOSPC, "disk full"},
		{syscall.EDQUOT, "disk quota reached"},
		{syscall.EROFS, "the storage is mounted read-only"},
		{fs.ErrPermission, "no permission to use the storage; see the log"},
		{syscall.EIO, "I/O error on the storage; see the log"},
		{syscall.ESTALE, "I/O error on the storage; see the log"},
	} {
		if errors.Is(err, e.cause) {
			return health.Explain(e.text, err)
		}
	}
	return err
}

// named makes the names of the checks differ, as they must: what is hidden of their
// addresses may be all that told them apart.
func named(checks []health.Check) []health.Check {
	times := map[string]int{}
	for i, c := range checks {
		if times[c.Name]++; times[c.Name] > 1 {
			checks[i].Name += fmt.Sprintf(" (%d)", times[c.Name])
		}
	}
	return checks
}
