package service

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Limits bound what is taken in.
type Limits struct {
	MaxMessage     int   // bytes of a message's body; 0 means 1 MiB
	MaxTitle       int   // bytes; 0 means 1 KiB
	RatePerMinute  int   // messages of one application; 0 means no limit
	Burst          int   // messages at once within that rate; 0 means RatePerMinute
	MaxAttachments int64 // bytes of a message's attachments together; 0 means none
	MaxWaiting     int64 // messages on their way; beyond that nothing is accepted. 0 means a million
}

// Intake accepts messages. It is safe for concurrent use. Errors that a client may read are
// [*refusal.Error].
type Intake struct {
	store     *store.Store
	accounts  *account.Accounts
	metrics   *intakeMetrics
	current   atomic.Pointer[Limits]
	paused    func() string   // why nothing is sent at all, "" if nothing is wrong
	maxUpload func() int64    // bytes of a file that the homeserver takes; 0 if that is unknown
	stopping  <-chan struct{} // closed when nobody shall wait any longer
}

// SetLimits replaces the limits.
func (s *Intake) SetLimits(l Limits) {
	if l.MaxMessage <= 0 {
		l.MaxMessage = 1 << 20
	}
	if l.MaxTitle <= 0 {
		l.MaxTitle = 1 << 10
	}
	if l.MaxWaiting <= 0 {
		l.MaxWaiting = 1_000_000
	}
	s.current.Store(&l)
}

func (s *Intake) limits() *Limits { return s.current.Load() }

// intakeMetrics are the Prometheus metrics of an [Intake]. Labels are closed sets.
type intakeMetrics struct {
	accepted prometheus.Counter
	refused  *prometheus.CounterVec // kind
	commit   prometheus.Histogram
}

// newIntakeMetrics registers the metrics at reg.
func newIntakeMetrics(reg prometheus.Registerer) *intakeMetrics {
	m := &intakeMetrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_messages_accepted_total", Help: "Messages committed to the outbox."}),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_messages_refused_total", Help: "Messages not accepted, by kind of refusal."}, []string{"kind"}),
		commit:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_accept_commit_seconds", Help: "Time a message waited for its durable commit.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}),
	}
	reg.MustRegister(m.accepted, m.refused, m.commit)
	return m
}

// Own accepts a message of the relay itself about an application. Limits don't apply.
func (s *Intake) Own(ctx context.Context, application int64, r post.Draft) error {
	app, err := s.accounts.App(ctx, application)
	if err != nil {
		return err
	}
	r.Source = post.SourceRelay
	stored, err := s.prepare(ctx, app, []post.Draft{r}, time.Now())
	if err == nil {
		err = s.store.Insert(ctx, stored...)
	}
	if err == nil {
		_, err = s.results(ctx, app, stored)
	}
	return err
}

// Beat records a heartbeat of an application, which counts toward its rate limit.
func (s *Intake) Beat(ctx context.Context, app *account.App) error {
	now := time.Now()
	if err := s.withinRate(ctx, app, 1, now); err != nil {
		return s.counted(err)
	}
	if err := s.store.Beat(ctx, app.ID, now.UnixMilli()); err != nil {
		return refusal.Unwritable(err)
	}
	return nil
}
