// Package template makes messages of what senders post by templates of an application's owner. Templates are text/template with
// a short list of functions. The values that they show are escaped, and size, time and output are bounded.
package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"slipway/relay/internal/markup"
)

const (
	maxSource = 4 << 10
	maxNodes  = 300
	maxOutput = 32 << 10
	maxRounds = 2000    // of all ranges of an execution
	maxBytes  = 1 << 20 // that the functions of an execution return
)

// Set are the templates of an application. An empty one leaves its part of a message as it is.
type Set struct {
	Title, Text, Priority, Link string
}

// Any reports whether there is a template.
func (s Set) Any() bool { return s != Set{} }

// Message is what templates have made; nil leaves a part as it is.
type Message struct {
	Title, Text *string
	Priority    *int
	Link        string
}

// Error says which template is wrong.
type Error struct {
	Field string // template_title, …
	Err   error
}

func (e *Error) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Check reports the first template that cannot be used.
func (s Set) Check() error {
	for _, p := range s.parts() {
		if _, err := compile(p.source, Plain); p.source != "" && err != nil {
			return &Error{p.field, err}
		}
	}
	return nil
}

type part struct{ field, source string }

func (s Set) parts() []part {
	return []part{{"template_title", s.Title}, {"template_text", s.Text}, {"template_priority", s.Priority}, {"template_link", s.Link}}
}

// Render applies the templates to a payload. The values in the text are escaped for the markup.
func (s Set) Render(data map[string]any, m Markup) (out Message, err error) {
	for _, p := range s.parts() {
		if p.source == "" {
			continue
		}
		escape := Plain
		if p.field == "template_text" {
			escape = m
		}
		text, err := execute(p.source, data, escape)
		if err == nil {
			err = out.set(p.field, strings.TrimSpace(text))
		}
		if err != nil {
			return Message{}, &Error{p.field, err}
		}
	}
	return out, nil
}

func (m *Message) set(field, text string) error {
	switch field {
	case "template_title":
		m.Title = &text
	case "template_text":
		if text == "" {
			return errors.New("the text is empty")
		}
		m.Text = &text
	case "template_priority":
		if text == "" {
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < -2 || n > 2 {
			return fmt.Errorf("%q is not a priority from -2 to 2", markup.Line(text, 40))
		}
		m.Priority = &n
	case "template_link":
		if text != "" && !markup.IsWeb(text) {
			return fmt.Errorf("%q is not a web address", markup.Line(text, 100))
		}
		m.Link = text
	}
	return nil
}

// execute runs a template. A panic in it is an error, too.
func execute(source string, data map[string]any, m Markup) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("it cannot be executed")
		}
	}()
	t, err := compile(source, m)
	if err != nil {
		return "", err
	}
	var out output
	err = t.Execute(&out, data)
	return out.String(), cause(err)
}

// cause is an error without the parts that name the Go package.
func cause(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{errOutput, errRounds, errBytes} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New(strings.TrimPrefix(err.Error(), "template: "))
}

var (
	errOutput = fmt.Errorf("it writes more than %d bytes", maxOutput)
	errRounds = fmt.Errorf("its ranges go round more than %d times", maxRounds)
	errBytes  = errors.New("its functions return too much")
)

// output is what a template has written.
type output struct{ strings.Builder }

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	if o.Len()+len(b) > maxOutput {
		return 0, errOutput
	}
	return o.Builder.Write(b)
}

// compile parses a template for one execution. Each value that it shows is escaped, and each round of a range is counted: Go cannot
// interrupt a template that writes nothing.
func compile(source string, m Markup) (*template.Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("a template has at most %d bytes", maxSource)
	}
	b := &budget{markup: m}
	t, err := template.New("template").Funcs(b.functions()).Parse(source)
	if err != nil {
		return nil, cause(err)
	}
	if t.Tree == nil || len(t.Templates()) > 1 {
		return nil, errors.New("define, block and template are not available")
	}
	count, err := template.New("round").Funcs(b.functions()).Parse("{{_round}}")
	if err != nil {
		return nil, err
	}
	r := rewriter{round: count.Root.Nodes[0]}
	if err := r.list(t.Root); err != nil {
		return nil, err
	}
	return t, nil
}

// rewriter checks the nodes of a template and adds what bounds it.
type rewriter struct {
	round parse.Node
	nodes int
}

func (r *rewriter) list(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := r.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *rewriter) node(n parse.Node) error {
	if r.nodes++; r.nodes > maxNodes {
		return fmt.Errorf("a template has at most %d nodes", maxNodes)
	}
	switch n := n.(type) {
	case *parse.ActionNode:
		if err := r.pipe(n.Pipe); err != nil || len(n.Pipe.Decl) > 0 {
			return err
		}
		name := "_escape"
		last := n.Pipe.Cmds[len(n.Pipe.Cmds)-1].Args[0]
		if f, ok := last.(*parse.IdentifierNode); ok && f.Ident == "raw" {
			name = "_text"
		}
		n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{parse.NewIdentifier(name).SetPos(n.Pos)}})
		return nil
	case *parse.RangeNode:
		err := r.branch(&n.BranchNode)
		n.List.Nodes = append([]parse.Node{r.round}, n.List.Nodes...)
		return err
	case *parse.IfNode:
		return r.branch(&n.BranchNode)
	case *parse.WithNode:
		return r.branch(&n.BranchNode)
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	}
	return errors.New("define, block and template are not available")
}

func (r *rewriter) branch(b *parse.BranchNode) error {
	return errors.Join(r.pipe(b.Pipe), r.list(b.List), r.list(b.ElseList))
}

func (r *rewriter) pipe(p *parse.PipeNode) error {
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			if err := r.argument(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rewriter) argument(n parse.Node) error {
	if r.nodes++; r.nodes > maxNodes {
		return fmt.Errorf("a template has at most %d nodes", maxNodes)
	}
	switch n := n.(type) {
	case *parse.IdentifierNode:
		if !available[n.Ident] {
			return fmt.Errorf("there is no function %q", n.Ident)
		}
	case *parse.PipeNode:
		return r.pipe(n)
	case *parse.ChainNode:
		return r.argument(n.Node)
	}
	return nil
}
