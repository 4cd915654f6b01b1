package format

import (
	"bytes"
	"errors"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
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

// Bounds of a parse. A message that a person writes stays far below them.
const (
	maxNesting = 32       // lists, items, and quotes inside each other; twice that in HTML
	maxLines   = 500_000  // lines, counted once for each block that is open
	maxCells   = 20_000   // table cells: goldmark pads each row to the width of the header
	maxInline  = 32 << 20 // brackets and emphasis, each times the bytes of its block: a tenth of a second
)

// newParser returns goldmark's parser with tables, strikethrough, and bare links. It panics with errTooComplex on a source
// that exceeds a bound.
func newParser() parser.Parser {
	blocks := parser.DefaultBlockParsers()
	for i, p := range blocks {
		blocks[i].Value = boundedBlocks{p.Value.(parser.BlockParser)}
	}
	tables := boundedTables{extension.NewTableParagraphTransformer()}
	return parser.NewParser(
		parser.WithBlockParsers(blocks...),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(boundedInline{parser.NewLinkParser()}, 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewRawHTMLParser(), 400),
			util.Prioritized(boundedInline{parser.NewEmphasisParser()}, 500),
			util.Prioritized(boundedInline{extension.NewStrikethroughParser()}, 500),
			util.Prioritized(extension.NewLinkifyParser(), 999),
		),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithParagraphTransformers(util.Prioritized(tables, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
}

// spend adds n to what a parse has spent under a key.
func spend(pc parser.Context, key parser.ContextKey, n, limit int) {
	spent := pc.ComputeIfAbsent(key, func() any { return new(int) }).(*int)
	if *spent += n; *spent > limit {
		panic(errTooComplex)
	}
}

var (
	linesKey  = parser.NewContextKey()
	cellsKey  = parser.NewContextKey()
	inlineKey = parser.NewContextKey()
)

// boundedBlocks bounds how deep blocks nest, and how many lines times blocks there are.
type boundedBlocks struct{ parser.BlockParser }

func (b boundedBlocks) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	node, state := b.BlockParser.Open(parent, reader, pc)
	if node != nil && state&parser.HasChildren != 0 {
		depth := 0
		for p := parent; p != nil; p = p.Parent() {
			depth++
		}
		if depth > 2*maxNesting {
			panic(errTooComplex)
		}
	}
	return node, state
}

func (b boundedBlocks) Continue(node ast.Node, reader text.Reader, pc parser.Context) parser.State {
	spend(pc, linesKey, 1, maxLines)
	return b.BlockParser.Continue(node, reader, pc)
}

// boundedInline bounds the brackets and emphasis of a block: unclosed, they cost the square of its length.
type boundedInline struct{ parser.InlineParser }

func (b boundedInline) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	lines := parent.Lines()
	first, last := lines.At(0), lines.At(lines.Len()-1)
	spend(pc, inlineKey, last.Stop-first.Start, maxInline)
	return b.InlineParser.Parse(parent, block, pc)
}

// CloseBlock implements [parser.CloseBlocker] for the link parser.
func (b boundedInline) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if p, ok := b.InlineParser.(parser.CloseBlocker); ok {
		p.CloseBlock(parent, block, pc)
	}
}

// boundedTables bounds the cells of a message's tables.
type boundedTables struct{ parser.ParagraphTransformer }

func (t boundedTables) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	// Any line of these bytes may be the delimiter row, so the one that makes the most cells counts.
	lines, cells := node.Lines(), 0
	for i := 1; i < lines.Len(); i++ {
		segment := lines.At(i)
		if line := segment.Value(reader.Source()); isDelimiterRow(line) {
			cells = max(cells, (bytes.Count(line, []byte{'|'})+1)*(lines.Len()-i+1))
		}
	}
	spend(pc, cellsKey, cells, maxCells)
	t.ParagraphTransformer.Transform(node, reader, pc)
}

// isDelimiterRow reports whether a line may end the header of a table.
func isDelimiterRow(line []byte) bool { return len(bytes.Trim(line, "|:- \t\r\n\f\v")) == 0 }
