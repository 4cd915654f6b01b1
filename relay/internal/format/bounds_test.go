//go:build !race

package format

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Bounds of rendering one message. The race detector, which empties pools at random, multiplies both figures. The worst
// known sources take about a second and allocate 160 MB, of which 70 MB are live at once.
const (
	maxBusy  = 15 * time.Second
	maxAlloc = 400 << 20
)

// hostile has a source for each element of the grammar that costs more than its length: what begins it, and what repeats.
var hostile = []struct{ name, head, unit string }{
	{"table cells", strings.Repeat("|a", 200) + "\n" + strings.Repeat("|-", 200) + "\n", "|\n"},
	{"table cells in a quote", "> " + strings.Repeat("|a", 200) + "\n> " + strings.Repeat("|-", 200) + "\n", "> |\n"},
	{"table below a line of colons", "a\n:\n" + strings.Repeat("|a", 500) + "\n" + strings.Repeat("|-", 500) + "\n" + strings.Repeat("|\n", 10_000) + "\n", ""},
	{"wide table", strings.Repeat("|a", 10_000) + "\n" + strings.Repeat("|-", 10_000) + "\n", "|\n"},
	{"many tables", "", strings.Repeat("|a", 100) + "\n" + strings.Repeat("|-", 100) + "\n" + strings.Repeat("|\n", 100) + "\n"},
	{"pipes in code", "|a|b|c\n|-|-|-\n", "|`\\|`|`\\|`\n"},
	{"delimiter rows", "", "a|b\n-|-\n"},
	{"quotes", "", ">"},
	{"nested quotes", "", strings.Repeat(">", 99) + "\n"},
	{"numbered lists", "", "1. "},
	{"quotes in lists", "", "- > "},
	{"blank lines in a deep list", strings.Repeat("- ", 30) + "a\n", "\n"},
	{"blank lines in a list deep by indent", repeat(300, func(i int) string { return strings.Repeat("  ", i) + "- a\n" }), "\n"},
	{"lazy lines in a quote", strings.Repeat("> ", 30) + "a\n", "b\n"},
	{"items", "", "- a\n\n"},
	{"empty items", "", "-\n"},
	{"headings", "", "a\n-\n"},
	{"links", "", "[a]("},
	{"links with long addresses", "", "<a href='https://x/" + strings.Repeat("y", 500) + "'>"},
	{"images", "", "![a](b"},
	{"link destinations", "", "[a](<"},
	{"links in paragraphs", "", strings.Repeat("[a](", 250) + "\n\n"},
	{"brackets", "", "["},
	{"link definitions", "", "[a]: b\n"},
	{"open titles", "", "[a]: b \"\n"},
	{"long definition used", "[a]: http://b/" + strings.Repeat("&", 10_000) + "\n\n", "[a]"},
	{"long definition used by images", "[a]: http://b/" + strings.Repeat("&", 10_000) + "\n\n", "![a]"},
	{"long title used", "[a]: b \"" + strings.Repeat("&", 10_000) + "\"\n\n", "[a]\n\n"},
	{"emphasis", "", "*a_ "},
	{"strong emphasis", "", "a**a__"},
	{"emphasis in paragraphs", "", strings.Repeat("*a_ ", 250) + "\n\n"},
	{"strikethrough", "", "~~a~"},
	{"code spans", "", "`a``"},
	{"comments", "", "a<!-- "},
	{"processing instructions", "", "a<?"},
	{"attributes", "", "<b a=1>"},
	{"open tags", "", "<a\n"},
	{"unbalanced tags", "", "<b><i><p>"},
	{"deep HTML", strings.Repeat("<b>", 99), "a<br>"},
	{"deep blocks", strings.Repeat("<div>", 98), "<p>"},
	{"mail addresses", "", "a@b.c "},
	{"bare links", "", "https://a.b "},
	{"white space", "", " \n"},
}

func filled(head, unit string, n int) string {
	return head + strings.Repeat(unit, max(0, n-len(head))/max(1, len(unit)))
}

// checkCost renders a source in both markups and reports what it cost.
func checkCost(t *testing.T, source string) {
	t.Helper()
	var before, after runtime.MemStats
	for _, kind := range []string{Markdown, HTML} {
		runtime.ReadMemStats(&before)
		begin := busy(t)
		e := Render(Message{Body: source, ContentType: kind}, Options{})
		took := busy(t) - begin
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; took > maxBusy || n > maxAlloc {
			t.Errorf("%s: %v, %d MB", kind, took, n>>20)
		}
		if open := unbalanced(decode(t, e.Content).Formatted); len(e.Content) > DefaultBudget || open != "" {
			t.Errorf("%s: %d bytes, unbalanced %q", kind, len(e.Content), open)
		}
	}
}

// TestBounds renders the hostile sources at the largest size that is parsed.
func TestBounds(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) { checkCost(t, filled(tt.head, tt.unit, maxSource)) })
	}
}

// TestBounds_PlainText: a source that exceeds a bound, and so makes the parser panic, is sent as it was written.
func TestBounds_PlainText(t *testing.T) {
	table := strings.Repeat("|a", 200) + "|\n" + strings.Repeat("|-", 200) + "|\n"
	for name, source := range map[string]string{
		"table":   table + strings.Repeat("|\n", 10_000),
		"nesting": strings.Repeat("> ", maxNesting*2+1) + "**a**",
		"links":   "[a]: http://b/" + strings.Repeat("b", 10_000) + "\n\n" + strings.Repeat("[a]", 1000),
	} {
		if _, text := Body(Markdown, source); text != strings.TrimSpace(source) {
			t.Errorf("%s: got %.60q, want the source", name, text)
		}
	}
	for name, source := range map[string]string{
		"table":   table + strings.Repeat(strings.Repeat("|b", 200)+"|\n", 50),
		"nesting": strings.Repeat("> ", maxNesting-1) + "**a**",
		"links":   "[a]: http://b\n\n" + strings.Repeat("[a] ", 1000),
	} {
		if html, text := Body(Markdown, source); text == strings.TrimSpace(source) || !strings.Contains(html, "<") {
			t.Errorf("%s: got plain text %.60q, want HTML", name, text)
		}
	}
}

// busy returns the processor time of this process.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FuzzBounds searches for sources that cost more than their length.
func FuzzBounds(f *testing.F) {
	for _, tt := range hostile {
		f.Add(tt.head, tt.unit)
	}
	for _, a := range hostile {
		f.Add(a.unit, "\n"+a.head)
		f.Add("- ", a.unit)
	}
	f.Fuzz(func(t *testing.T, head, unit string) {
		if unit == "" || len(unit) > 4<<10 {
			t.Skip("nothing to repeat, or a single unit that is too long")
		}
		checkCost(t, filled(head, unit, 32<<10)) // fuzzing is slow: its limit is 10 s
	})
}
