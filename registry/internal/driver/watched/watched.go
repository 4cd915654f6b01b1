// Package watched puts an eye on a driver: how long each operation takes, and
// which of them fail.
package watched

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"slipway/registry/internal/driver"
)

// slow is what an operation takes that an operator should hear of.
const slow = 3 * time.Second

// operation is an index into the names below.
type operation int

const (
	stat operation = iota
	readFile
	open
	list
	commit
	remove
	discard
	writeScratch
	createUpload
	openUpload
	operations
)

// actions are the operations' names in metrics and log lines. Where CNCF
// distribution's drivers have the same operation, it has the same name.
var actions = [operations]string{"Stat", "GetContent", "Reader", "List", "Commit", "Delete", "Discard", "PutContent", "Writer", "ResumeWriter"}

// Driver is a driver whose operations are timed and logged. Files and uploads
// come out of it as the driver made them.
type Driver struct {
	driver.Driver
	log     *zap.Logger
	seconds [operations]prometheus.Observer // nil without metrics
}

// New watches d. Each operation is logged at level debug, a slow or failed one
// at level warn. With a registerer they are counted into
// registry_storage_action_seconds.
func New(d driver.Driver, log *zap.Logger, registerer prometheus.Registerer) *Driver {
	w := &Driver{Driver: d, log: log}
	if registerer == nil {
		return w
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "registry", Subsystem: "storage", Name: "action_seconds",
		Help: "Time that operations of the storage take.", Buckets: prometheus.ExponentialBuckets(0.000_01, 4, 11),
	}, []string{"driver", "action"})
	registerer.MustRegister(seconds)
	for op, action := range actions {
		w.seconds[op] = seconds.WithLabelValues(d.Name(), action)
	}
	return w
}

// done notes an operation that has ended.
func (d *Driver) done(op operation, path string, start time.Time, err error) {
	took := time.Since(start)
	if o := d.seconds[op]; o != nil {
		o.Observe(took.Seconds())
	}
	level, message := zapcore.DebugLevel, "storage operation"
	switch {
	case failed(err):
		level, message = zapcore.WarnLevel, "storage operation failed"
	case took >= slow:
		level, message = zapcore.WarnLevel, "slow storage operation"
	}
	if entry := d.log.Check(level, message); entry != nil {
		entry.Write(zap.String("action", actions[op]), zap.String("path", path), zap.Duration("duration", took), zap.Error(err))
	}
}

// failed tells a fault from an answer: that something isn't there, or that
// somebody else or nobody wants it any more, is none.
func failed(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{driver.ErrNotExist, driver.ErrTooLarge, driver.ErrUploadTaken, driver.ErrUploadDone, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// Stat implements driver.Driver.
func (d *Driver) Stat(ctx context.Context, path string) (driver.Info, error) {
	start := time.Now()
	info, err := d.Driver.Stat(ctx, path)
	d.done(stat, path, start, err)
	return info, err
}

// Find implements driver.Driver.
func (d *Driver) Find(ctx context.Context, first, second string) (driver.Info, string, error) {
	start := time.Now()
	info, at, err := d.Driver.Find(ctx, first, second)
	d.done(stat, first, start, err)
	return info, at, err
}

// ReadFile implements driver.Driver.
func (d *Driver) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	start := time.Now()
	content, err := d.Driver.ReadFile(ctx, path, limit)
	d.done(readFile, path, start, err)
	return content, err
}

// Open implements driver.Driver.
func (d *Driver) Open(ctx context.Context, path string) (driver.File, error) {
	start := time.Now()
	f, err := d.Driver.Open(ctx, path)
	d.done(open, path, start, err)
	return f, err
}

// List implements driver.Driver. What the caller does between two entries is not
// in its time.
func (d *Driver) List(ctx context.Context, dir, after string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		start, failure := time.Now(), error(nil)
		defer func() { d.done(list, dir, start, failure) }()
		for e, err := range d.Driver.List(ctx, dir, after) {
			failure = err
			away := time.Now()
			more := yield(e, err)
			if start = start.Add(time.Since(away)); !more {
				return
			}
		}
	}
}

// Commit implements driver.Driver.
func (d *Driver) Commit(ctx context.Context, stages ...driver.Stage) error {
	start := time.Now()
	err := d.Driver.Commit(ctx, stages...)
	d.done(commit, first(stages), start, err)
	return err
}

// first names a commit by one of its paths.
func first(stages []driver.Stage) string {
	for _, s := range stages {
		if len(s) > 0 {
			return s[0].Path
		}
	}
	return ""
}

// Remove implements driver.Driver.
func (d *Driver) Remove(ctx context.Context, path string) error {
	start := time.Now()
	err := d.Driver.Remove(ctx, path)
	d.done(remove, path, start, err)
	return err
}

// Discard implements driver.Driver.
func (d *Driver) Discard(ctx context.Context, path string) error {
	start := time.Now()
	err := d.Driver.Discard(ctx, path)
	d.done(discard, path, start, err)
	return err
}

// WriteScratch implements driver.Driver.
func (d *Driver) WriteScratch(ctx context.Context, path string, content []byte) error {
	start := time.Now()
	err := d.Driver.WriteScratch(ctx, path, content)
	d.done(writeScratch, path, start, err)
	return err
}

// CreateUpload implements driver.Driver.
func (d *Driver) CreateUpload(ctx context.Context, path string) (driver.Upload, error) {
	start := time.Now()
	u, err := d.Driver.CreateUpload(ctx, path)
	d.done(createUpload, path, start, err)
	return u, err
}

// OpenUpload implements driver.Driver.
func (d *Driver) OpenUpload(ctx context.Context, path string) (driver.Upload, error) {
	start := time.Now()
	u, err := d.Driver.OpenUpload(ctx, path)
	d.done(openUpload, path, start, err)
	return u, err
}
