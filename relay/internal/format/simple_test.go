package format

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// simpleParts make sources of which many are simple, and many nearly so.
var simpleParts = []string{
	"a", "b1", "12", "1", "é", "✅", "word", "**", "**", "`", "- ", "\n", "\n", "\n\n", " ", " ", " ", " ", ".", ":", ",", ")", "(",
	"_", "*", "[", "]", "!", "\"", "'", "&", "& ", "&amp;", "<", "<b>", ">", "#", "=", "---", "+", "|", "~~", "@", "http:", "//", "www", "\\", "\t",
	"\u00a0", "\u2028", "\ufeff", "{", "}", "/", "%", "$", "^", "?", ";", "**x**", "`x`", "\n- a", "x_y", "1. ", "2) ", "- a\n- b\n", "://", "]:", "](",
}

// checkSimple compares what the short way makes of a source with the long way, and reports whether the short way took it.
func checkSimple(t *testing.T, source string) bool {
	t.Helper()
	source = cleanText(source)
	got, ok := renderSimple(source)
	if !ok {
		return false
	}
	if !affordable(source) || len(got.text) > minBudget {
		t.Fatalf("%q would not be parsed, or cut", source)
	}
	if want := sanitize(markdown(source), true, DefaultBudget); got != want {
		t.Fatalf("%q\n got %+v\nwant %+v", source, got, want)
	}
	return true
}

func TestRenderSimple(t *testing.T) {
	for _, source := range []string{
		"done", "one\ntwo", "The **nightly** backup of `db_1` has ended:\n\n- 12 files\n- 3.4 GB\n", "**Status:** ok & well", "a:\n- b\n- c\n\nd",
		"✅ Build #12 (main) is done: 5 > 3, \"quoted\", it's [info] 100%", "snake_case -> x-y", "\n\na\n\n\nb\n", "`a < b && *c*`, **d `e`** f.",
	} {
		if !checkSimple(t, source) {
			t.Errorf("%q is not simple", source)
		}
	}
	for _, source := range []string{
		"", "\n", "# a", "> a", "1. a", "12) a", "- 1. a", "-- a", "---", "a\n---", "a\n===", "- a\n\n- b", "- a\nb", "- ", "* a", "+ a", " a", "a  \nb", "a\n b",
		"*a*", "**a", "a**b**c", "***a***", "** a **", "**a **", "_a_", "a_ b", "``a``", "` a`", "`a", "a\\*", "&amp;", "&copy;", "<b>a</b>", "a < b", "~~a~~", "a\tb",
		"https://x.example", "www.x.example", "a@b.example", "[a](b)", "![a](b)", "[a]: b", "|a|\n|-|", "a|b\n-|-", "```\na\n```", "~~~\na\n~~~",
		strings.Repeat("a", maxSimple+1),
	} {
		if checkSimple(t, source) {
			t.Errorf("%.50q is simple", source)
		}
	}
}

// TestRenderSimple_RandomSources compares both ways over sources from a fixed seed.
func TestRenderSimple_RandomSources(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 3))
	taken := 0
	for range 30_000 {
		parts := make([]string, 1+r.IntN(12))
		for i := range parts {
			parts[i] = simpleParts[r.IntN(len(simpleParts))]
		}
		if checkSimple(t, strings.Join(parts, "")) {
			taken++
		}
	}
	for range 10_000 { // a simple one, changed in one place
		source := []byte("a **b** `c` d_e & f\n- 1.5 g\n- h: i\n\nj.k, **l:** (m)\nn")
		at := r.IntN(len(source))
		source = slices.Replace(source, at, at+r.IntN(2), []byte(simpleParts[r.IntN(len(simpleParts))])...)
		if checkSimple(t, string(source)) {
			taken++
		}
	}
	if taken < 5_000 {
		t.Errorf("only %d sources were simple: too few to compare", taken)
	}
}

func FuzzRenderSimple(f *testing.F) {
	for _, seed := range append(fuzzSeeds, "The **nightly** backup of `db_1`:\n\n- 12 files\n- 3.4 GB & more\n", "a\n- b", "1.5 **a:** b", "`a`b`c`", "[a] b\n\n- c\n\nd") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) { checkSimple(t, source) })
}
