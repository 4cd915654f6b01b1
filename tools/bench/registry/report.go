package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report writes a Markdown table: for each workload the median of the server's
// CPU time per operation, in brackets its ratio to the second peer's, which is
// the first compared with ours, and the rate.
func Report(w io.Writer, results []Result) error {
	peers, workloads := names(results, func(r Result) string { return r.Peer }), names(results, func(r Result) string { return r.Workload })
	beside := peers[min(1, len(peers)-1)]
	line := "| CPU of the server, µs per operation |"
	rule := "|---|"
	for _, p := range peers {
		line += fmt.Sprintf(" %s | a second |", p)
		rule += "--:|--:|"
	}
	text := line + "\n" + rule + "\n"
	for _, workload := range workloads {
		text += "| " + workload + " |"
		for _, p := range peers {
			cpu, reference := median(results, p, workload, perOperation), median(results, beside, workload, perOperation)
			text += fmt.Sprintf(" %.1f (%.2f) | %.0f |", cpu*1e6, cpu/reference, median(results, p, workload, rate))
		}
		text += "\n"
	}
	text += "| most memory, MiB |"
	for _, p := range peers {
		text += fmt.Sprintf(" %.0f | |", most(results, p)/(1<<20))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// ReportTimes writes a table of how long each peer took, and what part of the last one's time that is.
func ReportTimes(w io.Writer, times []Timed) error {
	type row struct{ peer, work string }
	byRow := map[row]Timed{}
	var peers, works []string
	for _, t := range times {
		byRow[row{t.Peer, t.Work}] = t
		if !slices.Contains(peers, t.Peer) {
			peers = append(peers, t.Peer)
		}
		if !slices.Contains(works, t.Work) {
			works = append(works, t.Work)
		}
	}
	if len(peers) == 0 {
		return errors.New("nothing was measured")
	}
	text := "| work, seconds | " + strings.Join(peers, " | ") + " |\n|---|" + strings.Repeat("--:|", len(peers)) + "\n"
	for _, work := range works {
		text += "| " + work
		least := byRow[row{peers[len(peers)-1], work}].Took.Seconds()
		for _, peer := range peers {
			took := byRow[row{peer, work}].Took.Seconds()
			text += fmt.Sprintf(" | %.2f (%.2f)", took, took/least)
		}
		text += " |\n"
	}
	text += "| most memory, MiB"
	for _, peer := range peers {
		text += fmt.Sprintf(" | %.0f", byRow[row{peer, works[len(works)-1]}].Memory/(1<<20))
	}
	_, err := io.WriteString(w, text+" |\n")
	return err
}

func perOperation(r Result) float64 { return r.PerOperation }
func rate(r Result) float64         { return r.Rate }

// names are the different names, in the order in which they come.
func names(results []Result, name func(Result) string) (all []string) {
	for _, r := range results {
		if n := name(r); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

func median(results []Result, peer, workload string, value func(Result) float64) float64 {
	var values []float64
	for _, r := range results {
		if r.Peer == peer && r.Workload == workload {
			values = append(values, value(r))
		}
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func most(results []Result, peer string) (bytes float64) {
	for _, r := range results {
		if r.Peer == peer {
			bytes = max(bytes, float64(r.Resident))
		}
	}
	return bytes
}
