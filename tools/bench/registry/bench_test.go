package main

import (
	"errors"
	"io"
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

func TestReportAuth(t *testing.T) {
	var out strings.Builder
	err := ReportAuth(&out, []AuthCost{
		{Work: "token", Without: Cost{30000, 20e-6}, With: Cost{27000, 25e-6}, Ratio: 0.9, Goal: 0.85},
		{Work: "guesses", Without: Cost{20, 60e-3}, With: Cost{8, 90e-3}, Ratio: 0.4, Goal: 0.7},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| token | 30000, 20 | 27000, 25 | **0.90** | 0.85 yes |", "| guesses | 20, 60000 | 8, 90000 | **0.40** | 0.70 no |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
}

func TestUnexpected(t *testing.T) {
	if got := unexpected("404", nil).Error(); got != "404" {
		t.Errorf("got %q", got)
	}
	if err := unexpected("404", io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "404: unexpected EOF" {
		t.Errorf("got %v", err)
	}
}
