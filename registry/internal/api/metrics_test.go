package api

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/oci"
)

func TestMetrics(t *testing.T) {
	registerer := prometheus.NewRegistry()
	s := newServer(t, func(s *setup) { s.options.Metrics = metrics.New(registerer) })
	d := s.pushManifest("a", "latest", oci.MediaTypeManifest, s.image("a", "x"))
	for range 3 {
		s.do("GET", "/v2/a/manifests/"+string(d), nil).want(t, 200)
	}
	s.do("GET", "/v2/another/manifests/x", nil).want(t, 404)
	s.do("HEAD", "/v2/a/blobs/"+string(digestOf([]byte("layer of x"))), nil).want(t, 200)
	s.do("GET", "/v2/nothing", nil).want(t, 404)
	s.do("BREW", "/v2/", nil).want(t, 405)
	want := `
# HELP registry_http_requests_total Requests answered.
# TYPE registry_http_requests_total counter
registry_http_requests_total{code="200",handler="blob",method="head"} 1
registry_http_requests_total{code="200",handler="manifest",method="get"} 3
registry_http_requests_total{code="201",handler="blob_upload_chunk",method="put"} 2
registry_http_requests_total{code="201",handler="manifest",method="put"} 1
registry_http_requests_total{code="202",handler="blob_upload",method="post"} 2
registry_http_requests_total{code="404",handler="manifest",method="get"} 1
registry_http_requests_total{code="404",handler="none",method="any"} 1
registry_http_requests_total{code="405",handler="none",method="any"} 1
`
	waitFor(t, func() bool {
		return testutil.GatherAndCompare(registerer, strings.NewReader(want), "registry_http_requests_total") == nil
	})
	families, err := registerer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetValue(), "another") {
					t.Errorf("%s has a label of a user's choice: %s", f.GetName(), l.GetValue())
				}
			}
			if g := m.GetGauge(); g != nil && g.GetValue() != 0 {
				t.Errorf("%s is %v after the last request", f.GetName(), g.GetValue())
			}
		}
	}
	if got, want := strings.Join(names, " "), "registry_failed_logins_total registry_http_in_flight_requests registry_http_request_duration_seconds registry_http_request_size_bytes registry_http_requests_total registry_http_response_size_bytes"; got != want {
		t.Errorf("families %s, want %s", got, want)
	}
}
