package health

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Defaults of a Check.
const (
	DefaultInterval = 10 * time.Second
	DefaultTimeout  = 5 * time.Second
)

// Check is one condition that is checked periodically.
type Check struct {
	Name     string
	Interval time.Duration // between the starts of two runs; 0 is DefaultInterval
	// Relaxed is the interval while the check succeeds, unless Trouble receives; 0 is Interval.
	Relaxed time.Duration
	// Trouble requests a run, at least Interval after the last; nil = no requests.
	Trouble <-chan struct{}

	Timeout time.Duration // a run that takes longer has failed; 0 is DefaultTimeout

	// Threshold is the number of runs in a row that must fail before the check counts
	// as failing; 0 is 1. One successful run resets it.
	Threshold int

	// Immediate runs the check first when the monitor starts, not an interval
	// later.
	Immediate bool

	// Advisory checks turn the page red but leave Ready true: they warn and do
	// not stop the traffic.
	Advisory bool

	// Warning checks leave the page at 200 and Ready true: what they look at is
	// not needed to serve. The page and Status name them while they fail.
	Warning bool

	Func func(context.Context) error
}

// Monitor owns one goroutine for each of its checks.
type Monitor struct {
	checks  []*watch
	failing atomic.Int32 // checks that count against Ready
	stop    context.CancelFunc
	ended   sync.WaitGroup
	log     *zap.Logger
}

// watch is a check and how it stands.
type watch struct {
	Check
	hung    chan struct{}          // closed when the run that outlived its timeout ends
	failure atomic.Pointer[string] // nil while healthy
}

// Start begins to run the checks, whose names must differ. Close ends them.
func Start(log *zap.Logger, checks ...Check) *Monitor {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Monitor{stop: cancel, log: log}
	for _, c := range checks {
		w := &watch{Check: c.withDefaults()}
		m.checks = append(m.checks, w)
		m.ended.Go(func() { m.run(ctx, w) })
	}
	return m
}

func (c Check) withDefaults() Check {
	if c.Interval <= 0 {
		c.Interval = DefaultInterval
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	c.Threshold = max(c.Threshold, 1)
	return c
}

// Close ends the checks and waits for their goroutines. A run that hangs in
// the operating system is left to itself.
func (m *Monitor) Close() {
	m.stop()
	m.ended.Wait()
}

// Ready reports whether no check fails except advisory ones and warnings. It is one atomic load.
func (m *Monitor) Ready() bool { return m.failing.Load() == 0 }

// Healthy reports whether no check fails except warnings.
func (m *Monitor) Healthy() bool {
	return !slices.ContainsFunc(m.checks, func(w *watch) bool { return !w.Warning && w.failure.Load() != nil })
}

// Failing reports whether the named check fails; a name that is not watched does
// not.
func (m *Monitor) Failing(name string) bool {
	for _, w := range m.checks {
		if w.Name == name {
			return w.failure.Load() != nil
		}
	}
	return false
}

// Failures returns the text of each failing check by name, advisory ones and
// warnings too. It is never nil.
func (m *Monitor) Failures() map[string]string {
	failures := map[string]string{}
	for _, w := range m.checks {
		if text := w.failure.Load(); text != nil {
			failures[w.Name] = *text
		}
	}
	return failures
}

// Status says of each check, advisory ones and warnings too, whether it succeeds.
func (m *Monitor) Status() map[string]bool {
	status := make(map[string]bool, len(m.checks))
	for _, w := range m.checks {
		status[w.Name] = w.failure.Load() == nil
	}
	return status
}

func (m *Monitor) run(ctx context.Context, w *watch) {
	began, failed := time.Now(), 0
	if w.Immediate {
		failed = m.judge(ctx, w, failed, w.check(ctx))
	}
	next := time.NewTimer(time.Until(began.Add(w.Interval)))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Trouble:
			next.Reset(time.Until(began.Add(w.Interval)))
		case <-next.C:
			began = time.Now()
			failed = m.judge(ctx, w, failed, w.check(ctx))
			interval := w.Interval
			if failed == 0 {
				interval = max(interval, w.Relaxed)
			}
			next.Reset(time.Until(began.Add(interval)))
		}
	}
}

// judge notes the outcome of a run and returns how many in a row have failed.
func (m *Monitor) judge(ctx context.Context, w *watch, failed int, err error) int {
	was := w.failure.Load()
	switch {
	case ctx.Err() != nil: // the monitor closes; the outcome says nothing
	case err == nil:
		failed = 0
		if was != nil {
			w.failure.Store(nil)
			m.count(w, -1)
			m.log.Info("health check recovered", zap.String("check", w.Name))
		}
	default:
		failed++
		if failed < w.Threshold {
			break
		}
		text := shown(err)
		w.failure.Store(&text)
		if was == nil {
			m.count(w, 1)
			m.log.Error("health check fails", zap.String("check", w.Name), zap.Error(err))
		}
	}
	return failed
}

func (m *Monitor) count(w *watch, by int32) {
	if !w.Advisory && !w.Warning {
		m.failing.Add(by)
	}
}
