// Package servicemetrics has the metrics that both services export.
package servicemetrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// volume measures the file system that a directory is on.
type volume struct {
	dir        string
	size, free *prometheus.Desc
}

// Volume collects the size of the file system that holds dir, and what is free of it for this user, both in bytes:
// PREFIX_volume_size_bytes and PREFIX_volume_free_bytes. What can't be measured is left out.
func Volume(prefix, dir string) prometheus.Collector {
	return &volume{
		dir:  dir,
		size: prometheus.NewDesc(prefix+"_volume_size_bytes", "Size of the file system that "+dir+" is on.", nil, nil),
		free: prometheus.NewDesc(prefix+"_volume_free_bytes", "What is free of it for the user of the service.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (v *volume) Describe(out chan<- *prometheus.Desc) {
	out <- v.size
	out <- v.free
}

// Collect implements prometheus.Collector.
func (v *volume) Collect(out chan<- prometheus.Metric) {
	var st unix.Statfs_t
	if unix.Statfs(v.dir, &st) != nil {
		return
	}
	unit := float64(st.Bsize)
	out <- prometheus.MustNewConstMetric(v.size, prometheus.GaugeValue, float64(st.Blocks)*unit)
	out <- prometheus.MustNewConstMetric(v.free, prometheus.GaugeValue, float64(st.Bavail)*unit)
}

// Expiry collects the time at which a certificate expires, in seconds since 1970, +Inf if expiry returns the zero time:
// PREFIX_tls_certificate_expiry_timestamp_seconds.
func Expiry(prefix string, expiry func() time.Time) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "_tls_certificate_expiry_timestamp_seconds", Help: "When the certificate of the server expires; +Inf without TLS.",
	}, func() float64 {
		if at := expiry(); !at.IsZero() {
			return float64(at.Unix())
		}
		return math.Inf(1)
	})
}
