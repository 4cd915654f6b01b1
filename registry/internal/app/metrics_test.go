package app

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Dashboards for distribution 2.8 and 3 find their counters of caches.
func TestCountLooks(t *testing.T) {
	metrics := prometheus.NewRegistry()
	looked := countLooks(metrics)
	looked(true)
	looked(false)
	looked(true)
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "registry_storage_cache_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"hits_total": 2, "requests_total": 3, "total Hit": 2, "total Miss": 1, "total Request": 3}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
