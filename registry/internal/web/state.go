package web

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"slipway/registry/internal/notify"
)

// checkRow is a health check.
type checkRow struct{ Name, Failure string }

// upstreamRow counts the pulls through a cache since the start.
type upstreamRow struct {
	Name                 string
	Hits, Misses, Errors int64
}

type statePage struct {
	frame
	Checks     []checkRow
	Volume     int64 // bytes of the file system that the storage is on, 0 = unknown
	Free       int64
	Used       int64
	Upstreams  []upstreamRow
	Queues     []notify.Report
	NoMetrics  bool
	HasQueues  bool
	QueueError string
	Uploads    uploadState
}

// uploadState counts unfinished uploads.
type uploadState struct {
	Count  int
	Bytes  int64
	Oldest time.Time // when one that has waited longest got its last bytes
	More   bool      // not all were counted
}

const (
	maxUploads     = 10_000
	uploadsTimeout = 2 * time.Second
)

// uploads counts unfinished uploads, as many as it can in a short time.
func (web *Web) uploads(ctx context.Context) (s uploadState) {
	ctx, cancel := context.WithTimeout(ctx, uploadsTimeout)
	defer cancel()
	failed := false
	for u, err := range web.o.Registry.Uploads(ctx) {
		if s.More = ctx.Err() != nil || s.Count == maxUploads; s.More {
			return s
		}
		if err != nil {
			failed = true
			continue
		}
		s.Count++
		s.Bytes += u.Size
		if s.Oldest.IsZero() || u.Modified.Before(s.Oldest) {
			s.Oldest = u.Modified
		}
	}
	s.More = failed || ctx.Err() != nil
	return s
}

// administers reports whether the visitor administers the registry as a whole.
func (web *Web) administers(v *visit) bool { return v.grant == nil || v.grant.Administers(nil) }

// getState shows the state of this process to administrators.
func (web *Web) getState(w http.ResponseWriter, v *visit) error {
	if !web.administers(v) {
		return errNoPage
	}
	p := statePage{frame: web.frame(v, "state", "State"), NoMetrics: web.o.Metrics == nil, HasQueues: web.o.Events != nil}
	if web.o.Health != nil {
		failures := web.o.Health.Failures()
		for _, name := range slices.Sorted(maps.Keys(web.o.Health.Status())) {
			p.Checks = append(p.Checks, checkRow{name, failures[name]})
		}
	}
	if p.HasQueues {
		queues, err := web.o.Events.Reports()
		if p.Queues = queues; err != nil {
			p.QueueError = "Some queues cannot be read; the log has the cause."
		}
	}
	p.Uploads = web.uploads(v.Context())
	if err := web.measure(&p); err != nil {
		return err
	}
	return web.pages.Show(w, http.StatusOK, "state", p)
}

// measure adds what the metrics know.
func (web *Web) measure(p *statePage) error {
	if web.o.Metrics == nil {
		return nil
	}
	families, err := web.o.Metrics.Gather()
	if err != nil {
		return err
	}
	upstreams := map[string]*upstreamRow{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := ""
			for _, label := range m.GetLabel() {
				if label.GetName() == "upstream" {
					name = label.GetValue()
				}
			}
			row := upstreams[name]
			if row == nil {
				row = &upstreamRow{Name: name}
			}
			switch value := int64(m.GetCounter().GetValue()); family.GetName() {
			case "registry_storage_volume_size_bytes":
				p.Volume = int64(m.GetGauge().GetValue())
				continue
			case "registry_storage_volume_free_bytes":
				p.Free = int64(m.GetGauge().GetValue())
				continue
			case "registry_proxy_hits_total":
				row.Hits += value
			case "registry_proxy_misses_total":
				row.Misses += value
			case "registry_proxy_errors_total":
				row.Errors += value
			default:
				continue
			}
			upstreams[name] = row
		}
	}
	p.Used = p.Volume - p.Free
	for _, name := range slices.Sorted(maps.Keys(upstreams)) {
		p.Upstreams = append(p.Upstreams, *upstreams[name])
	}
	return nil
}
