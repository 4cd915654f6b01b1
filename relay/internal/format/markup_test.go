package format

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

func TestMrkdwn(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"*bold* _it_ ~no~":                 "<strong>bold</strong> <em>it</em> <del>no</del>",
		"*a _b_ c*":                        "<strong>a <em>b</em> c</strong>",
		"2*3*4 snake_case_name":            "2*3*4 snake_case_name",
		"* not bold * nor this*":           "* not bold * nor this*",
		"`*code* <b>`":                     "<code>*code* &lt;b&gt;</code>",
		"```\nx &lt; 1\n```":               "<pre><code>x &lt; 1</code></pre>",
		"<https://e.org|a & b> <http://x>": `<a href="https://e.org">a &amp; b</a> <a href="http://x">http://x</a>`,
		"<javascript:alert(1)|go>":         "go",
		"<!channel> <@U1|ann> <#C1|ops>":   "@channel @ann #ops",
		"<mailto:a@b.c|mail>":              "mail",
		"a &lt;b&gt; &amp; c":              "a &lt;b&gt; &amp; c",
		"a\n> q\n> r\nb":                   "a<blockquote>q<br>r</blockquote>b",
		"<script>x":                        "&lt;script&gt;x",
		"a < b":                            "a &lt; b",
		"~*x*~":                            "<del><strong>x</strong></del>",
	} {
		if got := Mrkdwn(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestLink(t *testing.T) {
	for _, tt := range []struct{ label, target, want string }{
		{"a", "https://e.org/?a=1&b=2", `<a href="https://e.org/?a=1&amp;b=2">a</a>`},
		{"", "https://e.org", `<a href="https://e.org">https://e.org</a>`},
		{"<b>", "javascript:x", "&lt;b&gt;"},
		{"x", `https://e.org/"><script>`, `<a href="https://e.org/&#34;&gt;&lt;script&gt;">x</a>`},
	} {
		if got := Link(tt.label, tt.target); got != tt.want {
			t.Errorf("Link(%q, %q) = %s, want %s", tt.label, tt.target, got, tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{" a\nb ": "a b", "": "?", "\u202egpj": "\uFFFDgpj", "abcdefghijk": "abcdefghij…", "\xff": "\uFFFD", "\u0645\u200c\u0627": "\u0645\u200c\u0627", "👩\u200d💻 a": "👩\u200d…", "\u200b\u00ada": "\uFFFD\uFFFDa"} {
		if got := Line(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Nothing that a sender writes becomes a tag other than those of the markup, and long lines take no longer than their
// length warrants.
func FuzzMrkdwn(f *testing.F) {
	for _, s := range []string{"*a _b ~c~ d_ e*", "<https://e.org|x> `c` ```d```", "> q\n<b onclick=x>", strings.Repeat("*a ", 3000), strings.Repeat("`<", 3000)} {
		f.Add(s)
	}
	allowed := map[string]bool{"strong": true, "em": true, "del": true, "code": true, "pre": true, "a": true, "br": true, "blockquote": true}
	f.Fuzz(func(t *testing.T, s string) {
		began := time.Now()
		out := Mrkdwn(s)
		if d := time.Since(began); len(s) < 100_000 && d > 5*time.Second {
			t.Fatalf("%d bytes took %s", len(s), d)
		}
		z := html.NewTokenizer(strings.NewReader(out))
		for {
			kind := z.Next()
			if kind == html.ErrorToken {
				return
			}
			if token := z.Token(); (kind == html.StartTagToken || kind == html.EndTagToken) && !allowed[token.Data] {
				t.Fatalf("%q became %q with <%s>", s, out, token.Data)
			}
		}
	})
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9951: "10 kB", 999499: "999 kB", 999999: "1.0 MB", 3210399: "3.2 MB", 9223372036854775807: "9223 PB"} {
		if got := Size(n); got != want {
			t.Errorf("%d reads %s, want %s", n, got, want)
		}
	}
}
