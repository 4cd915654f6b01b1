// Package instrumented measures a store: how long each operation takes, and
// which of them fail.
package instrumented

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"slipway/registry/internal/storage"
	"slipway/shared/tracing"
)

// slow is the duration from which on an operation is logged as slow.
const slow = 3 * time.Second

// operation is an index into actions.
type operation int

const (
	stat operation = iota
	open
	list
	apply
	openUpload
	lock
	operations
)

// actions are the operations' names in metrics and log lines. Where CNCF
// distribution's drivers have the same operation, it has the same name.
var actions = [operations]string{"Stat", "Reader", "List", "Commit", "Writer", "Lock"}

// Store is a store whose operations are timed and logged. Objects and uploads are
// those of the store below.
type Store struct {
	storage.Store
	log     *zap.Logger
	driver  string
	failure func()                          // called after a failed operation
	seconds [operations]prometheus.Observer // nil without metrics
	failed  [operations]prometheus.Counter  // too
}

// New instruments s, which the configuration calls driver. Each operation is logged
// at level debug, a slow or failed one at level warn; failure is called after a failed one and must not block.
// With a registerer they are
// counted into registry_storage_action_seconds, and failed ones into
// registry_storage_action_errors_total.
func New(s storage.Store, driver string, log *zap.Logger, failure func(), registerer prometheus.Registerer) *Store {
	i := &Store{Store: s, log: log, driver: driver, failure: failure}
	if registerer == nil {
		return i
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "registry", Subsystem: "storage", Name: "action_seconds",
		Help: "Time that operations of the storage take.", Buckets: prometheus.ExponentialBuckets(0.000_01, 4, 11),
	}, []string{"driver", "action"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "registry", Subsystem: "storage", Name: "action_errors_total",
		Help: "Operations of the storage that failed; that something is not there is no failure.",
	}, []string{"driver", "action"})
	registerer.MustRegister(seconds, failed)
	for op, action := range actions {
		i.seconds[op] = seconds.WithLabelValues(driver, action)
		i.failed[op] = failed.WithLabelValues(driver, action)
	}
	return i
}

// call is an operation in progress.
type call struct {
	op    operation
	start time.Time
	span  trace.Span
}

func begin(ctx context.Context, op operation) (context.Context, call) {
	ctx, span := tracing.Span(ctx, actions[op])
	return ctx, call{op, time.Now(), span}
}

// done records an operation that has ended.
func (i *Store) done(c call, key string, err error) {
	op, took := c.op, time.Since(c.start)
	i.trace(c.span, key, err)
	if o := i.seconds[op]; o != nil {
		o.Observe(took.Seconds())
	}
	level, message := zapcore.DebugLevel, "storage operation"
	switch {
	case failed(err):
		level, message = zapcore.WarnLevel, "storage operation failed"
		i.failure()
		if f := i.failed[op]; f != nil {
			f.Inc()
		}
	case took >= slow:
		level, message = zapcore.WarnLevel, "slow storage operation"
	}
	if entry := i.log.Check(level, message); entry != nil {
		entry.Write(zap.String("action", actions[op]), zap.String("path", key), zap.Duration("duration", took), zap.Error(err))
	}
}

// trace ends the span of an operation.
func (i *Store) trace(s trace.Span, key string, err error) {
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(attribute.String("storage.driver", i.driver), attribute.String("storage.path", key))
	if !failed(err) {
		err = nil
	}
	tracing.End(s, err)
}

// answers are errors that answer a question. Any other is a fault.
var answers = []error{
	storage.ErrNotExist, storage.ErrConflict, storage.ErrTooLarge, storage.ErrExpired, storage.ErrBusy, storage.ErrUploadTaken, storage.ErrUploadDone,
	context.Canceled, context.DeadlineExceeded,
}

func failed(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// Stat implements storage.Store.
func (i *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	ctx, c := begin(ctx, stat)
	info, err := i.Store.Stat(ctx, key)
	i.done(c, key, err)
	return info, err
}

// Open implements storage.Store.
func (i *Store) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	ctx, c := begin(ctx, open)
	o, err := i.Store.Open(ctx, key, offset, length)
	i.done(c, key, err)
	return o, err
}

// List implements storage.Store. The time that the caller takes between two entries
// is not counted.
func (i *Store) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		ctx, c := begin(ctx, list)
		var failure error
		defer func() { i.done(c, prefix, failure) }()
		for info, err := range i.Store.List(ctx, prefix, o) {
			failure = err
			paused := time.Now()
			more := yield(info, err)
			if c.start = c.start.Add(time.Since(paused)); !more {
				return
			}
		}
	}
}

// Apply implements storage.Store.
func (i *Store) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	ctx, c := begin(ctx, apply)
	err := i.Store.Apply(ctx, a, stages...)
	i.done(c, firstKey(stages), err)
	return err
}

// firstKey stands for all keys of an Apply in a log line.
func firstKey(stages []storage.Stage) string {
	for _, s := range stages {
		if len(s) > 0 {
			return s[0].Key
		}
	}
	return ""
}

// OpenUpload implements storage.Store.
func (i *Store) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	ctx, c := begin(ctx, openUpload)
	u, err := i.Store.OpenUpload(ctx, key, o)
	i.done(c, key, err)
	return u, err
}

// Lock implements storage.Store.
func (i *Store) Lock(ctx context.Context, name string, shared bool) (unlock func(), err error) {
	ctx, c := begin(ctx, lock)
	unlock, err = i.Store.Lock(ctx, name, shared)
	i.done(c, name, err)
	return unlock, err
}
