package maintenance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// A restart doesn't forget when a job last succeeded, and a failure doesn't count.
func TestLastSuccess_AfterRestart(t *testing.T) {
	store := memory.New()
	start := func() *jobs {
		j := &jobs{Options: Options{Log: zap.NewNop(), Store: store, Metrics: prometheus.NewRegistry()}}
		j.show("garbage-collect", "gc", "When it succeeded.")
		j.recall(t.Context(), "garbage-collect")
		return j
	}
	end := func(j *jobs, err error) {
		j.audited("garbage-collect", true, func(context.Context, run) error { return err })(t.Context(), "")
	}
	last := func(j *jobs) time.Time {
		shown, _ := j.successes.Load("garbage-collect")
		return time.Unix(int64(testutil.ToFloat64(shown.(*success).last)), 0)
	}
	for _, err := range []error{errors.New("the disk is broken"), storage.ErrBusy} {
		j := start()
		if end(j, err); last(j).Unix() != 0 || last(start()).Unix() != 0 {
			t.Errorf("%v: it counts as a success", err)
		}
	}
	before := time.Now().Truncate(time.Second)
	j := start()
	end(j, nil)
	end(j, errors.New("the disk is broken"))
	for what, at := range map[string]time.Time{"the same process": last(j), "the next process": last(start())} {
		if at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s: the last success was at %v, want %v", what, at, before)
		}
	}
}
