package docpages

import (
	"bytes"
	"html/template"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders what GitHub would. Its sources are the project's own, and may contain HTML; the policy of the pages forbids styles.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.Linkify),
	goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
)

// render renders a page and collects its headings and what the search reads.
func render(file string, source []byte) (*Page, error) {
	root := markdown.Parser().Parse(text.NewReader(source))
	p := &Page{File: file}
	keepLinksInside(root, source, path.Dir(file))
	p.read(root, source)
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, root); err != nil {
		return nil, err
	}
	p.HTML = template.HTML(b.String())
	return p, nil
}

// read sets the anchors of the headings, which are GitHub's, and collects the entries of the search.
func (p *Page) read(root ast.Node, source []byte) {
	taken := map[string]int{}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		if !isHeading {
			p.readBlock(n, source)
			continue
		}
		title := plain(h, source)
		anchor := slug(title)
		if taken[anchor]++; taken[anchor] > 1 {
			anchor += "-" + strconv.Itoa(taken[anchor]-1)
		}
		h.SetAttributeString("id", []byte(anchor))
		switch {
		case p.Title == "":
			p.Title, anchor = title, ""
		case h.Level == 2:
			p.Contents = append(p.Contents, Heading{title, anchor})
		}
		p.entries = append(p.entries, newEntry(p, Heading{title, anchor}))
	}
	for i := range p.entries {
		p.entries[i].finish()
	}
}

// ownAnchor matches the anchor that references have before the description of each setting.
var ownAnchor = regexp.MustCompile(`^<a id="([^"]+)">$`)

// readBlock adds the text of a block to the entry of the heading above it. An item that begins with an anchor is an entry of its own.
func (p *Page) readBlock(n ast.Node, source []byte) {
	if n.Kind() != ast.KindList {
		p.add(plain(n, source))
		return
	}
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if anchor := takeAnchor(item, source); anchor != "" {
			p.entries = append(p.entries, newEntry(p, Heading{anchor, anchor}))
		}
		p.add(plain(item, source))
	}
}

// takeAnchor makes the anchor at the beginning of an item one of the item, and returns it. It returns "" if there is none.
func takeAnchor(item ast.Node, source []byte) string {
	block := item.FirstChild()
	if block == nil {
		return ""
	}
	start, ok := block.FirstChild().(*ast.RawHTML)
	if !ok {
		return ""
	}
	m := ownAnchor.FindSubmatch(start.Segments.Value(source))
	if m == nil {
		return ""
	}
	if end, ok := start.NextSibling().(*ast.RawHTML); ok { // </a>
		block.RemoveChild(block, end)
	}
	block.RemoveChild(block, start)
	item.SetAttributeString("id", m[1])
	return string(m[1])
}

func (p *Page) add(text string) {
	if len(p.entries) > 0 {
		e := &p.entries[len(p.entries)-1]
		e.text.WriteByte(' ')
		e.text.WriteString(text)
	}
}

// plain returns the text of a node without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '_', unicode.IsLetter(c), unicode.IsNumber(c):
			return unicode.ToLower(c)
		}
		return -1
	}, heading)
}

// keepLinksInside replaces links to files outside the documentation, which no service has, by their text and the path.
func keepLinksInside(root ast.Node, source []byte, dir string) {
	var outside []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if link, ok := n.(*ast.Link); ok && entering && strings.HasPrefix(inRepository(link, dir), "../") {
			outside = append(outside, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range outside {
		target := strings.TrimPrefix(inRepository(link, dir), "../")
		if label := plain(link, source); !strings.Contains(target, label) && !strings.Contains(label, target) {
			link.AppendChild(link, ast.NewString([]byte(" ("+target+")")))
		}
		parent := link.Parent()
		for c := link.FirstChild(); c != nil; c = link.FirstChild() {
			parent.InsertBefore(parent, link, c)
		}
		parent.RemoveChild(parent, link)
	}
}

// inRepository returns the path that a link leads to, relative to the documentation, or "" if it leads elsewhere.
func inRepository(link *ast.Link, dir string) string {
	file, _, _ := strings.Cut(string(link.Destination), "#")
	if file == "" || strings.Contains(file, ":") {
		return ""
	}
	return path.Join(dir, file)
}

// blocks renders blocks that may be wider than a telephone, which scroll.
type blocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(east.KindTable, renderTable)
	r.Register(ast.KindFencedCodeBlock, renderCode)
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"across\" tabindex=\"0\">\n<table>\n")
	} else {
		_, _ = w.WriteString("</table>\n</div>\n")
	}
	return ast.WalkContinue, nil
}

// renderCode renders a block. Commands and configurations get a button that copies them, which the pages' script shows.
func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	id := "code-" + strconv.Itoa(n.Pos())
	_, _ = w.WriteString(`<div class="code"><pre tabindex="0"><code id="` + id + `">`)
	_, _ = w.Write(util.EscapeHTML(n.Lines().Value(source)))
	_, _ = w.WriteString("</code></pre>")
	if language := string(n.(*ast.FencedCodeBlock).Language(source)); language != "" && language != "text" {
		_, _ = w.WriteString(`<button type="button" class="small" data-copy="` + id + `" hidden>Copy</button>`)
	}
	_, _ = w.WriteString("</div>\n")
	return ast.WalkSkipChildren, nil
}
