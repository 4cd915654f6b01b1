package format

import (
	"strings"
	"testing"
)

func TestBody(t *testing.T) {
	for _, tt := range []struct {
		name, kind, source, html, text string
	}{
		{"text", Markdown, "done", "<p>done</p>", "done"},
		{"emphasis", "", "**Backup** of `db1` *done* ~~late~~", "<p><strong>Backup</strong> of <code>db1</code> <em>done</em> <del>late</del></p>", "Backup of db1 done late"},
		{"line ends are kept", Markdown, "one\ntwo\r\nthree", "<p>one<br>\ntwo<br>\nthree</p>", "one\ntwo\nthree"},
		{"list", Markdown, "- a\n- b\n  1. c\n  2. d", "<ul>\n<li>a</li>\n<li>b\n<ol>\n<li>c</li>\n<li>d</li>\n</ol>\n</li>\n</ul>", "• a\n• b\n  1. c\n  2. d"},
		{"list that starts at", Markdown, "3. c", "<ol start=\"3\">\n<li>c</li>\n</ol>", "3. c"},
		{"table", Markdown, "|a|b|\n|-|:-:|\n|1|2|", "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>", "a | b\n1 | 2"},
		{"quote", Markdown, "> a\n> b", "<blockquote>\n<p>a<br>\nb</p>\n</blockquote>", "> a\n> b"},
		{"code", Markdown, "```go\nif a < b {\n\n\tx()\n}\n```", "<pre><code class=\"language-go\">if a &lt; b {\n\n\tx()\n}\n</code></pre>", "if a < b {\n\n\tx()\n}"},
		{"heading, ruler", Markdown, "# H\n\n---\nx", "<h1>H</h1>\n<hr>\n<p>x</p>", "H\n\n---\n\nx"},
		{"link", Markdown, "[log](https://x.example/?a=1&b=2)", `<p><a href="https://x.example/?a=1&amp;b=2">log</a></p>`, "log (https://x.example/?a=1&b=2)"},
		{"bare link", Markdown, "https://x.example/a www.y.example <https://z.example/ä>", `<p><a href="https://x.example/a">https://x.example/a</a> <a href="http://www.y.example">www.y.example</a> <a href="https://z.example/%C3%A4">https://z.example/ä</a></p>`, "https://x.example/a www.y.example https://z.example/ä"},
		{"address", Markdown, "a@b.example", `<p><a href="mailto:a@b.example">a@b.example</a></p>`, "a@b.example"},
		{"script link", Markdown, "[x](javascript:alert(1)) [y](vbscript:a) [z](data:text/html,x) [r](/rel)", "<p>x y z r</p>", "x y z r"},
		{"hidden script link", HTML, "<a href=\" java\tscript:alert(1)\">x</a><a href=\"&#106;avascript:alert(1)\">y</a><a href=\"\x01javascript:a\">z</a>", "xyz", "xyz"},
		{"link in capitals", HTML, "<A HREF='HTTPS://x.example/\"' onclick=a()>x</A>", `<a href="HTTPS://x.example/&quot;">x</a>`, `x (HTTPS://x.example/")`},
		{"image elsewhere", Markdown, "![pic](https://x.example/a.png)", `<p><a href="https://x.example/a.png">pic</a></p>`, "pic (https://x.example/a.png)"},
		{"image elsewhere in a link", Markdown, "[![pic](https://x.example/a.png)](https://y.example)", `<p><a href="https://y.example">pic</a></p>`, "pic (https://y.example)"},
		{"image on a homeserver", Markdown, `![a "b"](mxc://x.example/a)`, `<p>a &quot;b&quot;</p>`, `a "b"`},
		{"image that is script", Markdown, "![alt](javascript:x)", "<p>alt</p>", "alt"},
		{"what looks like a tag", Markdown, "got <nil> from List<String> </x> <T,U>", "<p>got &lt;nil&gt; from List&lt;String&gt; &lt;/x&gt; &lt;T,U&gt;</p>", "got <nil> from List<String> </x> <T,U>"},
		{"script in Markdown is shown", Markdown, "a <script>alert(1)</script> **b**", "<p>a &lt;script&gt;alert(1)&lt;/script&gt; <strong>b</strong></p>", "a <script>alert(1)</script> b"},
		{"unclosed script in Markdown", Markdown, "see the <title> and the rest", "<p>see the &lt;title&gt; and the rest</p>", "see the <title> and the rest"},
		{"script in HTML is dropped", HTML, "a<script>alert('<b>')</script><style>x{}</style><svg><a href=https://x>y</a><svg></svg></svg>b", "ab", "ab"},
		{"HTML in Markdown", Markdown, `<b>bold <font color="#ff0000">red</font>`, `<p><b>bold <span data-mx-color="#ff0000">red</span></b></p>`, "bold red"},
		{"attributes", HTML, `<span style="x" data-mx-color="red" data-mx-bg-color="#00ff00" data-mx-bg-color="#000000" onload=x>a</span><code class="language-a&quot;b">c</code><code class="x">d</code>`, `<span data-mx-bg-color="#00ff00">a</span><code>c</code><code>d</code>`, "acd"},
		{"unknown HTML is unwrapped", HTML, "<main><blink>a</blink> <button>b</button></main>", "a b", "a b"},
		{"left out end tags", HTML, "<ul><li>a<li>b</ul><table><tr><td>1<td>2<tr><td>3</table><p>x<p>y", "<ul><li>a</li><li>b</li></ul><table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table><p>x</p><p>y</p>", "• a\n• b\n\n1 | 2\n3\n\nx\n\ny"},
		{"end tags of nothing", HTML, "</b></p></table>a</td></li>", "a", "a"},
		{"crossed", HTML, "<b>a<i>b</b>c</i>d", "<b>a<i>b</i></b>cd", "abcd"},
		{"an end inside a cell stays inside", HTML, "<b><table><tr><td>x</b></div>y</td></tr></table></b>", "<b><table><tr><td>xy</td></tr></table></b>", "xy"},
		{"comment", HTML, "a<!-- <script> -->b<!doctype x>", "ab", "ab"},
		{"only a comment", Markdown, "<!-- x -->", "&lt;!-- x --&gt;", "<!-- x -->"},
		{"plain", Plain, "**a** <b>\n c ", "**a** &lt;b&gt;<br>\u00a0c", "**a** <b>\n c"},
		{"control characters", Plain, "a\x00b\x1b[1mc\u0085\x7fd\xff", "ab[1mcd\uFFFD", "ab[1mcd\uFFFD"},
		{"white space in HTML", HTML, "  a\n   b  <i> c</i>\t", "a\n   b  <i> c</i>", "a b c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			html, text := Body(tt.kind, tt.source)
			if html != tt.html {
				t.Errorf("html\n got %q\nwant %q", html, tt.html)
			}
			if text != tt.text {
				t.Errorf("text\n got %q\nwant %q", text, tt.text)
			}
		})
	}
}

func TestNestingIsBounded(t *testing.T) {
	html, text := Body(HTML, strings.Repeat("<div>", 5000)+"x"+strings.Repeat("</div>", 5000)+"y")
	depth, deepest := 0, 0
	for _, tag := range strings.SplitAfter(html, "<") {
		switch {
		case strings.HasPrefix(tag, "/"):
			depth--
		case strings.HasPrefix(tag, "div"):
			depth++
		}
		deepest = max(deepest, depth)
	}
	if deepest != maxDepth || depth != 0 {
		t.Errorf("depth %d, left open %d, want %d and 0", deepest, depth, maxDepth)
	}
	if !strings.Contains(text, "x") || !strings.Contains(text, "y") {
		t.Errorf("text %q lost something", text)
	}
}

// All of a long text is shown, if need be without its formatting.
func TestBody_Long(t *testing.T) {
	for kind, source := range map[string]string{Plain: "a <b>\n", Markdown: "**a** <b>\n", HTML: "<p>a <b>b</b></p>\n"} {
		html, text := Body(kind, strings.Repeat(source, 50_000)+"end")
		if !strings.HasSuffix(html, "end") || !strings.HasSuffix(text, "end") || strings.Count(text, "a ") != 50_000 && strings.Count(text, "**a**") != 50_000 {
			t.Errorf("%s: …%q, …%q", kind, html[len(html)-100:], text[len(text)-100:])
		}
	}
}
