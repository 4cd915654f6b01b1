package format

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// converter is compiled once, like a regular expression. Line ends are kept as
// people expect in a chat. Raw HTML passes, for sanitize to judge.
var converter = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
	goldmark.WithRendererOptions(html.WithHardWraps(), html.WithUnsafe()),
)

// markdown converts CommonMark with tables, strikethrough and bare links to HTML
// that is not yet sanitised.
func markdown(source string) []byte {
	var b buffer
	b.Grow(len(source) + len(source)/2)
	if err := converter.Convert([]byte(source), &b); err != nil {
		// Only a failing writer makes an error, and a buffer does not fail.
		return appendEscaped(nil, source)
	}
	return b.Bytes()
}

// buffer is one that goldmark writes to as it is, not through another.
type buffer struct{ bytes.Buffer }

// Buffered and Flush make it a util.BufWriter.
func (*buffer) Buffered() int { return 0 }

func (*buffer) Flush() error { return nil }
