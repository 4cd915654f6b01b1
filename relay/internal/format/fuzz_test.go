package format

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var fuzzSeeds = []string{
	"**a** [b](https://x) ![c](mxc://x/y) `d` <nil>", "| a | b |\n|---|---|\n| 1 | <b>2</td> |", "- a\n  - b\n\n    c\n> d",
	"<a href='javascript:alert(1)'>x<p><table><td><a>", "<script><!--</script>--><b onclick=x>", "<svg><style><img src=x onerror=y></style>",
	"<p><pre>\n\nx</pre></p><h1><h2><li><li></ul>", "<b><i><u></b></i><font color='#123456'></font>", "<plaintext>a<b>", "<textarea></textarea><title>x",
	"<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">", "<noscript><p title=\"</noscript><img src=x>\">",
	"&lt;script&gt; &#0; &amp;amp;", "<details><summary>s</summary>d</details><span data-mx-spoiler='\"><b>'>x</span>", "<!doctype><?x><![CDATA[y]]></>", "<a href=http://a><img src=http://b alt=c></a>",
}

// FuzzBody holds the sanitiser against an HTML parser that works as browsers do:
// whatever comes in, only what Matrix allows is in the tree that a client builds.
func FuzzBody(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, source string, isHTML bool) {
		kind := Markdown
		if isHTML {
			kind = HTML
		}
		out, text := Body(kind, source)
		if !utf8.ValidString(out) || !utf8.ValidString(text) {
			t.Fatalf("invalid UTF-8 in %q or %q", out, text)
		}
		nodes, err := html.ParseFragment(strings.NewReader(out), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
		if err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		for _, n := range nodes {
			checkNode(t, n, out)
		}
	})
}

func checkNode(t *testing.T, n *html.Node, out string) {
	t.Helper()
	switch n.Type {
	case html.TextNode:
	case html.ElementNode:
		if !allowed[n.DataAtom] && n.DataAtom != atom.Img {
			t.Fatalf("<%s> in %q", n.Data, out)
		}
		for _, a := range n.Attr {
			checkAttribute(t, n.DataAtom, a, out)
		}
	default:
		t.Fatalf("node of type %v in %q", n.Type, out)
	}
	for c := range n.ChildNodes() {
		checkNode(t, c, out)
	}
}

func checkAttribute(t *testing.T, tag atom.Atom, a html.Attribute, out string) {
	t.Helper()
	ok := false
	switch tag.String() + " " + a.Key {
	case "a href":
		scheme, _, _ := strings.Cut(strings.ToLower(a.Val), ":")
		ok = strings.Contains(" http https ftp mailto magnet ", " "+scheme+" ")
	case "img src":
		ok = strings.HasPrefix(a.Val, "mxc://")
	case "img alt", "span data-mx-spoiler", "ol start":
		ok = true
	case "span data-mx-color", "span data-mx-bg-color":
		ok = len(a.Val) == 7 && a.Val[0] == '#'
	case "code class":
		ok = strings.HasPrefix(a.Val, "language-") && !strings.Contains(a.Val, " ")
	}
	if !ok {
		t.Fatalf("<%s %s=%q> in %q", tag, a.Key, a.Val, out)
	}
}

// FuzzRender: whatever a message holds, its content is JSON within the budget,
// canonical, and marked.
func FuzzRender(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add("title", seed, "text/html", 2)
		f.Add(seed, strings.Repeat(seed, 200), "", -1)
	}
	f.Fuzz(func(t *testing.T, title, body, kind string, priority int) {
		const budget = 5000
		e := Render(Message{Title: title, Body: body, ContentType: kind, Priority: priority, Mention: "@o:x", Marker: "t1"}, Options{ColoredTitle: true, Budget: budget})
		if len(e.Content) > budget {
			t.Fatalf("%d bytes", len(e.Content))
		}
		var content map[string]any
		if err := json.Unmarshal(e.Content, &content); err != nil {
			t.Fatalf("%v in %s", err, e.Content)
		}
		var again strings.Builder
		encoder := json.NewEncoder(&again) // sorts keys
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(content); err != nil {
			t.Fatal(err)
		}
		// encoding/json escapes the two line separators, canonical JSON does not.
		canonical := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(again.String()))
		if !strings.Contains(body+title, `u202`) && canonical != string(e.Content) {
			t.Fatalf("not canonical\n got %s\nwant %s", e.Content, canonical)
		}
		if MarkerOf(e.Content) != "t1" {
			t.Fatalf("marker lost in %s", e.Content)
		}
	})
}
