package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRender(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message Message
		options Options
		want    string
	}{
		{
			"text alone needs no HTML",
			Message{Body: "done", Marker: "t1"},
			Options{ColoredTitle: true},
			`{"body":"done","io.slipway.relay":{"m":"t1"},"m.mentions":{},"msgtype":"m.text"}`,
		},
		{
			"title",
			Message{Title: " a\n<b> ", Body: "**x**", Marker: "t1"},
			Options{},
			`{"body":"a <b>\n\nx","format":"org.matrix.custom.html","formatted_body":"<p><strong>a &lt;b&gt;</strong></p>\n<p><strong>x</strong></p>","io.slipway.relay":{"m":"t1"},"m.mentions":{},"msgtype":"m.text"}`,
		},
		{
			"low is a notice",
			Message{Title: "a", Body: "x", Priority: -1, Mention: "@o:x"},
			Options{ColoredTitle: true},
			`{"body":"a\n\nx","format":"org.matrix.custom.html","formatted_body":"<p><strong><span data-mx-color=\"#828282\">a</span></strong></p>\n<p>x</p>","io.slipway.relay":{"m":""},"m.mentions":{},"msgtype":"m.notice"}`,
		},
		{
			"high mentions the owner",
			Message{Body: "x", Priority: 1, Mention: "@o:x"},
			Options{ColoredTitle: true},
			`{"body":"x","io.slipway.relay":{"m":""},"m.mentions":{"user_ids":["@o:x"]},"msgtype":"m.text"}`,
		},
		{
			"high without an owner",
			Message{Body: "x", Priority: 1},
			Options{},
			`{"body":"x","io.slipway.relay":{"m":""},"m.mentions":{},"msgtype":"m.text"}`,
		},
		{
			"highest mentions the room",
			Message{Title: "a", Body: "x", Priority: 2, Mention: "@o:x"},
			Options{ColoredTitle: true},
			`{"body":"a\n\nx","format":"org.matrix.custom.html","formatted_body":"<p><strong><span data-mx-color=\"#ed1f11\">a</span></strong></p>\n<p>x</p>","io.slipway.relay":{"m":""},"m.mentions":{"room":true,"user_ids":["@o:x"]},"msgtype":"m.text"}`,
		},
		{
			"@room in the text mentions nobody",
			Message{Body: "@room", Priority: 0},
			Options{},
			`{"body":"@room","io.slipway.relay":{"m":""},"m.mentions":{},"msgtype":"m.text"}`,
		},
		{
			"escapes",
			Message{Body: "\"\\\t\u2028é", ContentType: Plain, Marker: "\x01\r\b\f\xff"},
			Options{},
			`{"body":"\"\\\t` + "\u2028é" + `","io.slipway.relay":{"m":"\u0001\r\b\f` + "\uFFFD" + `"},"m.mentions":{},"msgtype":"m.text"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Render(tt.message, tt.options)
			if string(got.Content) != tt.want {
				t.Errorf("content\n got %s\nwant %s", got.Content, tt.want)
			}
			if got.Truncated {
				t.Error("it says truncated")
			}
		})
	}
}

// decoded is what a reader sees of the content.
type decoded struct {
	Body      string `json:"body"`
	Formatted string `json:"formatted_body"`
}

func decode(t *testing.T, content []byte) (d decoded) {
	t.Helper()
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatalf("%v in %.200s", err, content)
	}
	return d
}

func TestRenderStaysInTheBudget(t *testing.T) {
	for name, unit := range map[string]string{
		"letters": "abcdefg ", "lines": strings.Repeat("x", 79) + "\n", "escapes": "\\\"", "four bytes": "🦀", "three bytes": "€",
		"entities": "a<b&c ", "items": "- `x`\n", "no blank": "x",
	} {
		t.Run(name, func(t *testing.T) {
			// Around each of the limits: with HTML, without HTML, cut, source cut.
			for _, size := range []int{22_000, 30_600, 44_900, 65_536, maxSource + 10_000} {
				for _, kind := range []string{Markdown, Plain, HTML} {
					m := Message{Title: "t", Body: strings.Repeat(unit, size/len(unit)), ContentType: kind, Marker: "t1"}
					e := Render(m, Options{})
					if len(e.Content) > DefaultBudget {
						t.Fatalf("%s of %d: content has %d bytes", kind, size, len(e.Content))
					}
					d := decode(t, e.Content)
					if !utf8.ValidString(d.Body) || strings.Contains(d.Body, "\uFFFD") {
						t.Fatalf("%s of %d: a rune was cut", kind, size)
					}
					if says := strings.HasSuffix(d.Body, inFile); says != e.Truncated {
						t.Fatalf("%s of %d: body says truncated %t, event says %t", kind, size, says, e.Truncated)
					}
					if kind == Plain && e.Truncated && len(e.Content) < DefaultBudget*3/4-10 {
						t.Fatalf("%s of %d: cut to %d bytes, more than needed", kind, size, len(e.Content))
					}
				}
			}
		})
	}
}

func TestRender_NoFile_DropsHTMLBeforeText(t *testing.T) {
	body := strings.Repeat("- **x** & y\n", 3000)
	e := Render(Message{Body: body}, Options{NoFile: true})
	d := decode(t, e.Content)
	if d.Formatted != "" || e.Truncated || strings.Count(d.Body, "• x & y") != 3000 {
		t.Errorf("formatted %d bytes, truncated %t, %d items", len(d.Formatted), e.Truncated, strings.Count(d.Body, "• x & y"))
	}
}

func TestRenderCutsAtALine(t *testing.T) {
	line := strings.Repeat("x", 99)
	e := Render(Message{Body: strings.Repeat(line+"\n", 2000), ContentType: Plain}, Options{Budget: 10_000})
	lines := strings.Split(decode(t, e.Content).Body, "\n")
	if !e.Truncated || lines[len(lines)-2] != line || lines[len(lines)-1] != strings.TrimSpace(inFile) {
		t.Errorf("truncated %t, last lines %q", e.Truncated, lines[len(lines)-2:])
	}
}

func TestTitleIsBounded(t *testing.T) {
	e := Render(Message{Title: strings.Repeat("é ", 5000), Body: "x"}, Options{})
	if title, _, _ := strings.Cut(decode(t, e.Content).Body, "\n"); len(title) > maxTitle+3 || !strings.HasSuffix(title, "…") || e.Truncated {
		t.Errorf("title has %d bytes, truncated %t", len(title), e.Truncated)
	}
}

func TestMarkerOf(t *testing.T) {
	e := Render(Message{Body: "x", Marker: `a"b`}, Options{})
	if got := MarkerOf(e.Content); got != `a"b` {
		t.Errorf("marker = %q", got)
	}
	for _, other := range []string{`{"body":"x"}`, `{"body":"io.slipway.relay"}`, `{"io.slipway.relay":7}`, `{"io.slipway.relay":{"m":7}}`, `io.slipway.relay`} {
		if got := MarkerOf([]byte(other)); got != "" {
			t.Errorf("marker of %s = %q", other, got)
		}
	}
}

func TestFileContent(t *testing.T) {
	got := string(FileContent(File{Name: "message.md", URI: "mxc://x/y", MimeType: "text/markdown", Size: 70000, Marker: "t2"}))
	want := `{"body":"message.md","filename":"message.md","info":{"mimetype":"text/markdown","size":70000},"io.slipway.relay":{"m":"t2"},"m.mentions":{},"msgtype":"m.file","url":"mxc://x/y"}`
	if got != want {
		t.Errorf("content\n got %s\nwant %s", got, want)
	}
}

func TestFullText(t *testing.T) {
	if got := string(FullText(Message{Title: "a", Body: "**b**"})); got != "a\n\n**b**\n" {
		t.Errorf("text = %q", got)
	}
}

func TestMentions(t *testing.T) {
	for _, tt := range []struct {
		priority    int
		owner, whom string
		want        string
	}{
		{0, "@o:hs", "room", `{}`},
		{1, "@o:hs", "", `{"user_ids":["@o:hs"]}`},
		{2, "@o:hs", "auto", `{"room":true,"user_ids":["@o:hs"]}`},
		{2, "", "auto", `{"room":true}`},
		{1, "@o:hs", "room", `{"room":true,"user_ids":["@o:hs"]}`},
		{2, "@o:hs", "owner", `{"user_ids":["@o:hs"]}`},
		{2, "", "owner", `{}`},
		{2, "@o:hs", "none", `{}`},
		{2, "@o:hs", "@a:hs @b:hs", `{"user_ids":["@a:hs","@b:hs"]}`},
		{0, "@o:hs", "@a:hs", `{}`},
	} {
		m := Message{Priority: tt.priority, Mention: tt.owner, Mentions: tt.whom}
		if got := string(canonical(m.mentions())); got != tt.want {
			t.Errorf("priority %d, whom %q: %s, want %s", tt.priority, tt.whom, got, tt.want)
		}
	}
}

// Only the bot's homeserver shows images: another server in mxc: is one that each reader's homeserver would fetch from.
func TestMediaServer(t *testing.T) {
	for source, shown := range map[string]bool{
		`![a](mxc://x.example/a1_-)`:                         true,
		`<img src="mxc://x.example/a" alt="a">`:              true,
		`![a](mxc://evil.example/a)`:                         false,
		`<img src="mxc://evil.example/a" alt="a">`:           false,
		`<img src="MXC://evil.example/a" alt="a">`:           false,
		`<img src=" mxc://evil.example/a" alt="a">`:          false,
		`![a](mxc://x.example.evil.example/a)`:               false,
		`![a](mxc://x.example@evil.example/a)`:               false,
		`![a](mxc://x.example/../evil.example/a)`:            false,
		`![a](mxc://x.example/)`:                             false,
		`[a](mxc://evil.example/a)`:                          false,
		`[![a](mxc://evil.example/a)](mxc://evil.example/a)`: false,
		`<a href="mxc://evil.example/a">a</a>`:               false,
		`<video src="mxc://evil.example/a">a</video>`:        false,
	} {
		kind := Markdown
		if source[0] == '<' {
			kind = HTML
		}
		if formatted := formattedBody(t, Render(Message{Body: source + " **b**<b>b</b>", ContentType: kind}, Options{MediaServer: "x.example"})); strings.Contains(formatted, "mxc:") != shown {
			t.Errorf("%s: %s", source, formatted)
		}
		if formatted := formattedBody(t, Render(Message{Body: source + " **b**<b>b</b>", ContentType: kind}, Options{})); strings.Contains(formatted, "mxc:") {
			t.Errorf("without a server %s: %s", source, formatted)
		}
	}
	e := Render(Message{Body: strings.Repeat("**b** ![a](mxc://evil.example/a) ![a](mxc://x.example/a)\n\n", 1000)}, Options{MediaServer: "x.example"})
	if formatted := formattedBody(t, e); !e.Truncated || strings.Contains(formatted, "evil.example") || !strings.Contains(formatted, "x.example") {
		t.Errorf("cut: %.200s", formatted)
	}
}

func formattedBody(t *testing.T, e Event) string {
	t.Helper()
	var c struct {
		Formatted string `json:"formatted_body"`
	}
	if err := json.Unmarshal(e.Content, &c); err != nil {
		t.Fatal(err)
	}
	return c.Formatted
}

// TestRender_Long: a message that is too long keeps as much of its beginning as fits, with its formatting, and mentions people.
func TestRender_Long(t *testing.T) {
	table := "|a|b|\n|-|-|\n"
	for name, tt := range map[string]struct {
		kind, source string
		contains     string // in the formatted body
	}{
		"sections":        {Markdown, repeat(2000, func(i int) string { return fmt.Sprintf("## Part %d\n\nSome **bold** text, & more.\n\n", i) }), "<h2>"},
		"one list":        {Markdown, repeat(5000, func(i int) string { return fmt.Sprintf("- item *%d*\n", i) }), "<ul>\n<li>item"},
		"numbered list":   {Markdown, repeat(5000, func(i int) string { return fmt.Sprintf("%d. item **%d**\n", i+7, i+7) }), `<ol start="7">`},
		"nested list":     {Markdown, repeat(600, func(i int) string { return fmt.Sprintf("- item %d\n  1. one\n  2. two\n     - deep **%d**\n", i, i) }), "<ul>"},
		"table":           {Markdown, table + repeat(3000, func(i int) string { return fmt.Sprintf("|%d|`x`|\n", i) }), "<table>"},
		"code":            {Markdown, "```go\n" + repeat(3000, func(i int) string { return fmt.Sprintf("\tif a[%d] < b { // \"x\"\n", i) }) + "```\n", `<pre><code class="language-go">`},
		"quote":           {Markdown, repeat(3000, func(i int) string { return fmt.Sprintf("> line **%d**\n>\n", i) }), "<blockquote>"},
		"a paragraph":     {Markdown, "**" + strings.Repeat("word ", 15000) + "end**", "<strong>"},
		"a word":          {Markdown, "`" + strings.Repeat("xé", 30000) + "`", "<code>"},
		"escapes":         {Markdown, "`" + strings.Repeat("<&", 20000) + "`", "<code>"},
		"lines":           {Markdown, "**bold**\n" + repeat(3000, func(i int) string { return fmt.Sprintf("line %d with some text\n", i) }), "<br>"},
		"links":           {Markdown, strings.Repeat("[a] and [a]\n\n", 3000) + "[a]: https://example.org\n", `<a href="https://example.org">`},
		"HTML":            {HTML, repeat(2000, func(i int) string { return fmt.Sprintf("<p>Some <b>bold</b> text %d</p>", i) }), "<p>"},
		"HTML in a block": {HTML, "<div><i>" + repeat(3000, func(i int) string { return fmt.Sprintf("text %d <b>bold</b> ", i) }) + "</i></div>", "<div><i>"},
		"a style first":   {HTML, "<style>" + strings.Repeat("p { color: red }\n", 6000) + "</style>" + strings.Repeat("<p>Some <b>bold</b> text</p>", 2000), "<p>Some"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Render(Message{Title: "Report", Body: tt.source, ContentType: tt.kind, Priority: 2, Mention: "@o:x", Marker: "m"}, Options{ColoredTitle: true})
			d := decode(t, e.Content)
			if !e.Truncated || len(e.Content) > DefaultBudget || len(e.Content) < DefaultBudget*6/10 || !utf8.ValidString(d.Body) {
				t.Errorf("%d bytes, truncated %t", len(e.Content), e.Truncated)
			}
			if tag := unbalanced(d.Formatted); tag != "" || !strings.Contains(d.Formatted, tt.contains) || !strings.HasSuffix(d.Formatted, "<p>"+strings.TrimSpace(inFile)+"</p>") {
				t.Errorf("unbalanced %q: %.200q … %q", tag, d.Formatted, d.Formatted[max(0, len(d.Formatted)-200):])
			}
			if MarkerOf(e.Content) != "m" || !strings.Contains(string(e.Content), `"room":true`) {
				t.Errorf("the marker is %q, of %.200s", MarkerOf(e.Content), e.Content)
			}
			source := []byte(tt.source)
			if tt.kind == Markdown {
				source = markdown(tt.source)
			}
			whole := sanitize(source, tt.kind == Markdown, 1<<30, "").text
			text, ok := strings.CutSuffix(strings.TrimPrefix(d.Body, "Report\n\n"), inFile)
			if !ok || !strings.HasPrefix(whole, strings.TrimRight(text, " ")) {
				t.Errorf("the text is not the beginning: %.200q … %q", text, text[max(0, len(text)-200):])
			}
		})
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
