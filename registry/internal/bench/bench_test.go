package bench

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var results []Result
	for _, cost := range []float64{1e-6, 5e-6, 3e-6} { // median 3
		results = append(
			results,
			Result{Peer: "ours", Workload: "read", PerOperation: cost, Rate: 1e6 * cost, Resident: 20 << 20},
			Result{Peer: "theirs", Workload: "read", PerOperation: 2 * cost, Rate: 7, Resident: 30 << 20},
		)
	}
	var out strings.Builder
	if err := Report(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| ours | a second | theirs | a second |", "| read | 3.0 (0.50) | 3 | 6.0 (1.00) | 7 |", "| most memory, MiB | 20 | | 30 | |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
}

func TestPeerConfig(t *testing.T) {
	for _, p := range append(Installed(), Ours("registry"), Peer{Config: zotConfig}) {
		text := p.config("127.0.0.1:5001", "/data")
		if strings.Contains(text, "{addr}") || strings.Contains(text, "{root}") || !strings.Contains(text, "5001") || !strings.Contains(text, "/data") {
			t.Errorf("configuration of %q:\n%s", p.Name, text)
		}
	}
}
