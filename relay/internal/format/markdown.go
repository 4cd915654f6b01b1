package format

import (
	"bytes"
	"errors"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// converter keeps line breaks, as people expect in a chat. Raw HTML passes; sanitize filters it.
var converter = goldmark.New(
	goldmark.WithParser(newParser()),
	goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(html.NewRenderer(html.WithHardWraps(), html.WithUnsafe()), 1000),
		util.Prioritized(extension.NewTableHTMLRenderer(), 500),
		util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
	))),
)

// maxHTML bounds the output of the Markdown renderer: each use of a link reference repeats its destination and title.
const maxHTML = 4 << 20

var errTooComplex = errors.New("the source exceeds the bounds of rendering")

// markdown converts CommonMark with tables, strikethrough, and bare links to HTML that is not yet sanitized. It panics if
// the source exceeds a bound; render and split recover.
func markdown(source string) []byte {
	var b boundedBuffer
	b.Grow(len(source) + len(source)/2)
	if err := converter.Convert([]byte(source), &b); err != nil {
		panic(err) // boundedBuffer returns no errors
	}
	return b.Bytes()
}

// boundedBuffer is a util.BufWriter that panics with errTooComplex above maxHTML, because goldmark's node renderers ignore
// write errors.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.check(len(p))
	return b.Buffer.Write(p)
}

func (b *boundedBuffer) WriteString(s string) (int, error) {
	b.check(len(s))
	return b.Buffer.WriteString(s)
}

func (b *boundedBuffer) check(n int) {
	if b.Len()+n > maxHTML {
		panic(errTooComplex)
	}
}

func (*boundedBuffer) Buffered() int { return 0 }

func (*boundedBuffer) Flush() error { return nil }
