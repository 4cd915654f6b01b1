package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report writes the results as one table of Markdown.
func Report(w io.Writer, results []Result) error {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row("offered", "relay", "taken in a second", "delivered a second", "answer p50, p99 ms", "arrival p50, p99 ms", "CPU µs a message", "peak MiB", "refused", "lost", "repeated")
	row("---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, r := range results {
		delivered, arrival := "–", "–"
		if r.Delivered > 0 {
			delivered, arrival = fmt.Sprintf("%.0f", r.Delivered), millis(r.ArriveP50)+", "+millis(r.ArriveP99)
		}
		row(r.Load.String(), r.Peer, fmt.Sprintf("%.0f", r.TakenIn), delivered, millis(r.AnswerP50)+", "+millis(r.AnswerP99), arrival,
			fmt.Sprint(r.CPU.Microseconds()), fmt.Sprint(r.Peak), fmt.Sprint(r.Refused), fmt.Sprint(r.Missing), fmt.Sprint(r.Repeats))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
