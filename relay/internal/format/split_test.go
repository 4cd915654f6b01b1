package format

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// squeezed is a text without what line breaks, bullets and numbers add to it.
func squeezed(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \n•>|", r) }), "")
}

// unbalanced returns the first tag of allowed HTML that has no partner; "" if there is none.
func unbalanced(html string) string {
	var open []string
	for _, part := range strings.Split(html, "<")[1:] {
		tag, _, _ := strings.Cut(part, ">")
		name, _, _ := strings.Cut(tag, " ")
		switch {
		case name == "br" || name == "hr" || name == "img":
		case name[0] != '/':
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name[1:]:
			return name
		default:
			open = open[:len(open)-1]
		}
	}
	return strings.Join(open, " ")
}

func repeat(n int, line func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

// TestEvents: a long message keeps all of its text and its formatting, in order, in events that fit.
func TestEvents(t *testing.T) {
	table := "|a|b|\n|-|-|\n"
	for name, tt := range map[string]struct {
		kind, source string
		contains     string // in every formatted body
	}{
		"sections":        {Markdown, repeat(2000, func(i int) string { return fmt.Sprintf("## Part %d\n\nSome **bold** text, & more.\n\n", i) }), "<h2>"},
		"one list":        {Markdown, repeat(5000, func(i int) string { return fmt.Sprintf("- item *%d*\n", i) }), "<ul>\n<li>item"},
		"numbered list":   {Markdown, repeat(5000, func(i int) string { return fmt.Sprintf("%d. item **%d**\n", i+1, i+1) }), "<ol"},
		"nested list":     {Markdown, repeat(600, func(i int) string { return fmt.Sprintf("- item %d\n  1. one\n  2. two\n     - deep **%d**\n", i, i) }), "<ul>"},
		"table":           {Markdown, table + repeat(3000, func(i int) string { return fmt.Sprintf("|%d|`x`|\n", i) }), "<table>"},
		"code":            {Markdown, "```go\n" + repeat(3000, func(i int) string { return fmt.Sprintf("\tif a[%d] < b { // \"x\"\n", i) }) + "```\n", `<pre><code class="language-go">`},
		"quote":           {Markdown, repeat(3000, func(i int) string { return fmt.Sprintf("> line **%d**\n>\n", i) }), "<blockquote>"},
		"a paragraph":     {Markdown, "**" + strings.Repeat("word ", 15000) + "end**", "<strong>"},
		"a word":          {Markdown, "`" + strings.Repeat("xé", 30000) + "`", "<code>"},
		"lines":           {Markdown, "**bold**\n" + repeat(3000, func(i int) string { return fmt.Sprintf("line %d with some text\n", i) }), "<br>"},
		"HTML":            {HTML, repeat(2000, func(i int) string { return fmt.Sprintf("<p>Some <b>bold</b> text %d</p>", i) }), "<p>"},
		"HTML in a block": {HTML, "<div><i>" + repeat(3000, func(i int) string { return fmt.Sprintf("text %d <b>bold</b> ", i) }) + "</i></div>", "<div><i>"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Message{Title: "Report", Body: tt.source, ContentType: tt.kind, Priority: 2, Mention: "@o:x", Marker: "m"}
			events := Events(m, Options{ColoredTitle: true})
			if len(events) < 2 || len(events) > DefaultEvents {
				t.Fatalf("%d events", len(events))
			}
			var text strings.Builder
			for i, e := range events {
				d := decode(t, e.Content)
				if len(e.Content) > DefaultBudget || e.Truncated || !utf8.ValidString(d.Body) || strings.HasPrefix(d.Body, "\n") {
					t.Errorf("event %d: %d bytes, truncated %v", i, len(e.Content), e.Truncated)
				}
				if i < len(events)-1 && len(e.Content) < DefaultBudget/3 {
					t.Errorf("event %d has only %d bytes", i, len(e.Content))
				}
				if tag := unbalanced(d.Formatted); tag != "" || !strings.Contains(d.Formatted, tt.contains) {
					t.Errorf("event %d: unbalanced %q, begins %.200q", i, tag, d.Formatted)
				}
				if MarkerOf(e.Content) != PartMarker("m", i) {
					t.Errorf("event %d has the marker %q", i, MarkerOf(e.Content))
				}
				if mentions := strings.Contains(string(e.Content), `"room":true`); mentions != (i == 0) || strings.Contains(d.Body, "Report") != (i == 0) {
					t.Errorf("event %d: mentions %v, begins %.40q", i, mentions, d.Body)
				}
				text.WriteString(strings.TrimPrefix(d.Body, "Report\n\n"))
			}
			source := []byte(tt.source)
			if tt.kind == Markdown {
				source = markdown(tt.source)
			}
			whole := sanitize(source, tt.kind == Markdown, 1<<30, "").text
			if got, want := squeezed(text.String()), squeezed(whole); got != want {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				t.Errorf("the text differs from byte %d on: %.60q, want %.60q", i, got[max(0, i-20):], want[max(0, i-20):])
			}
		})
	}
}

// TestEventsGoOnCounting: the second part of a numbered list begins with the next number, in both forms.
func TestEventsGoOnCounting(t *testing.T) {
	events := Events(Message{Body: repeat(3000, func(i int) string { return fmt.Sprintf("%d. **x**\n", i+1) })}, Options{})
	first, second := decode(t, events[0].Content), decode(t, events[1].Content)
	n := strings.Count(first.Formatted, "<li>") + 1
	if !strings.HasPrefix(second.Formatted, fmt.Sprintf(`<ol start="%d">`, n)) || !strings.HasPrefix(second.Body, fmt.Sprintf("%d. x", n)) {
		t.Errorf("after %d items: %.40q, %.20q", n-1, second.Formatted, second.Body)
	}
}

// TestEventsOfPlainText are cut at lines and lose nothing.
func TestEventsOfPlainText(t *testing.T) {
	source := repeat(3000, func(i int) string { return fmt.Sprintf("line %d of __init__.py \\\n", i) })
	events := Events(Message{Title: "t", Body: source, ContentType: Plain}, Options{})
	var text []string
	for i, e := range events {
		if d := decode(t, e.Content); i == 0 {
			text = append(text, strings.TrimPrefix(d.Body, "t\n\n"))
		} else {
			text = append(text, d.Body)
		}
	}
	if got := strings.Join(text, "\n") + "\n"; len(events) != 3 || got != source {
		t.Errorf("%d events, %d bytes of %d", len(events), len(got), len(source))
	}
}

// TestEventsHaveALimit: what is beyond goes into a file.
func TestEventsHaveALimit(t *testing.T) {
	for _, kind := range []string{Markdown, Plain, HTML} {
		events := Events(Message{Title: "t", Body: strings.Repeat("Some **text** <b>here</b>\n\n", 40000), ContentType: kind}, Options{})
		for i, e := range events {
			if last := i == len(events)-1; e.Truncated != last || strings.HasSuffix(decode(t, e.Content).Body, truncated) != last || len(e.Content) > DefaultBudget {
				t.Errorf("%s: event %d of %d: truncated %v, %d bytes", kind, i, len(events), e.Truncated, len(e.Content))
			}
		}
		if len(events) != DefaultEvents {
			t.Errorf("%s: %d events", kind, len(events))
		}
	}
}

// TestEventsOfAShortMessage is the one that Render makes.
func TestEventsOfAShortMessage(t *testing.T) {
	m := Message{Title: "t", Body: "**x**", Marker: "m", Priority: 1, Mention: "@o:x"}
	if events := Events(m, Options{}); len(events) != 1 || string(events[0].Content) != string(Render(m, Options{}).Content) {
		t.Errorf("%d events: %s", len(events), events[0].Content)
	}
}

// TestPriorityWords: each priority can be told from the others without colors.
func TestPriorityWords(t *testing.T) {
	seen := map[string]int{}
	for p := -2; p <= 2; p++ {
		d := decode(t, Render(Message{Sender: "backup", Title: "Done", Body: "x", Priority: p}, Options{PriorityWords: true}).Content)
		if other, there := seen[d.Body]; there || !strings.Contains(d.Formatted, strings.SplitN(d.Body, "\n", 2)[0]) {
			t.Errorf("priority %d reads as %d: %q", p, other, d.Body)
		}
		seen[d.Body] = p
	}
	for p, want := range map[int]string{2: "[max]\n\nx", 0: "x"} {
		if d := decode(t, Render(Message{Body: "x", Priority: p}, Options{PriorityWords: true}).Content); d.Body != want {
			t.Errorf("without a title, %d: %q, want %q", p, d.Body, want)
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
