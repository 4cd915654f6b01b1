package maintenance

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

// success exports the time of a job's last success on any replica. The date of an object in the store preserves it
// across restarts.
type success struct {
	key  string
	last prometheus.Gauge
	at   int64 // what last shows
}

func (s *success) note(at time.Time) {
	s.at = max(s.at, at.Unix())
	s.last.Set(float64(s.at))
}

// show adds the metric of a job's last success, registry_SUBSYSTEM_last_success_timestamp_seconds.
func (j *jobs) show(name, subsystem, help string) {
	if j.Metrics == nil {
		return
	}
	last := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "registry", Subsystem: subsystem, Name: "last_success_timestamp_seconds", Help: help})
	j.Metrics.MustRegister(last)
	j.successes.Store(name, &success{key: layout.Own + "/schedule/" + subsystem + "-succeeded", last: last})
}

// recall updates the metric from the store, where any replica may have recorded a success.
func (j *jobs) recall(ctx context.Context, name string) {
	known, shown := j.successes.Load(name)
	if !shown {
		return
	}
	s := known.(*success)
	info, err := j.Store.Stat(ctx, s.key)
	switch {
	case err == nil:
		s.note(info.Modified)
	case !errors.Is(err, storage.ErrNotExist) && ctx.Err() == nil:
		j.Log.Warn("cannot find out when a job last succeeded", zap.String("job", name), zap.Error(err))
	}
}

// succeeded records that the job has succeeded now.
func (j *jobs) succeeded(ctx context.Context, name string) {
	known, shown := j.successes.Load(name)
	if !shown {
		return
	}
	s := known.(*success)
	s.note(time.Now())
	if err := j.Store.Apply(ctx, nil, storage.Stage{{Key: s.key, Content: []byte{}}}); err != nil {
		j.Log.Warn("cannot record that a job has succeeded", zap.String("job", name), zap.Error(err))
	}
}
