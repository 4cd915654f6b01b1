package metrics_test

import (
	"slices"
	"testing"

	"slipway/tools/metrics"
)

func TestCheck(t *testing.T) {
	series := metrics.Series{
		"a_total":          {{"code": "200", "kind": "x"}},
		"a_seconds_bucket": {{"handler": "blob", "le": "1"}},
	}
	tests := []struct {
		expression string
		want       []string
	}{
		{`sum by (job, missing) (rate(a_total{job="j", kind="x"}[5m])) > 2.5 * 86400`, nil},
		{`histogram_quantile(0.99, sum by (le) (rate(a_seconds_bucket{handler=~"$handler"}[$__rate_interval]))) or job:a:rate`, nil},
		{`up{job="a"} == 0 and on (job) a_total{code="503"} offset 5m`, nil},
		{`b_total / a_total`, []string{"nobody exports b_total"}},
		{`rate(job:b:rate[5m])`, []string{"nobody exports job:b:rate"}},
		{`a_total{cod="200"}`, []string{"a_total has no label cod"}},
		{`a_total{kind="y", code=~"5.."}`, []string{`no a_total has kind="y"`}},
	}
	for _, tt := range tests {
		if got := series.Check(tt.expression, []string{"job:a:rate"}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.expression, got, tt.want)
		}
	}
}
