package docs_test

import (
	"regexp"
	"testing"

	"slipway/deploy/internal/metrics"
)

var metric = regexp.MustCompile("`((?:registry|relay)_[a-z0-9_]+)(?:\\{[^`]*\\})?`")

// files are names that look like metrics: secrets that `relay setup` makes.
var files = map[string]bool{"relay_token": true, "registry_headers": true, "registry_http_secret": true}

// TestMetrics: the metrics that the text names are ones that the services have.
func TestMetrics(t *testing.T) {
	exported := metrics.Export(t)
	found := 0
	for _, p := range pages(t) {
		for _, m := range metric.FindAllStringSubmatch(p.prose, -1) {
			if files[m[1]] {
				continue
			}
			found++
			if exported[m[1]] == nil && exported[m[1]+"_count"] == nil {
				t.Errorf("%s: no service exports %s", p.path, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d metrics were found", found)
	}
}
