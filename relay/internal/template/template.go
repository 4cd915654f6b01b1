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

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
)

const (
	maxSource = 4 << 10
	maxNodes  = 300
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
		if _, err := compile(p.source, Plain, &budget{}); p.source != "" && err != nil {
			return &Error{p.field, err}
		}
	}
	return nil
}

type part struct{ field, source string }

func (s Set) parts() []part {
	return []part{{"template_title", s.Title}, {"template_text", s.Text}, {"template_priority", s.Priority}, {"template_link", s.Link}}
}

// Templates are the templates of a set, ready to make the messages of one request. They are not safe for concurrent use.
type Templates struct {
	parts  []compiled
	err    error // of a template that cannot be used
	budget budget
}

// compiled is a parsed template and the number of its nodes.
type compiled struct {
	*template.Template
	field string
	nodes int
}

// Compile returns the templates for the messages of one request, whose work they bound together. The values in the text are escaped for
// the markup.
func (s Set) Compile(m Markup) *Templates {
	all := &Templates{}
	for _, p := range s.parts() {
		if p.source == "" {
			continue
		}
		escape := Plain
		if p.field == "template_text" {
			escape = m
		}
		t, err := compile(p.source, escape, &all.budget)
		if err != nil {
			all.err = &Error{p.field, err}
			break
		}
		t.field = p.field
		all.parts = append(all.parts, t)
	}
	return all
}

// Render applies the templates to a payload.
func (t *Templates) Render(data map[string]any) (out Message, err error) {
	if t.err != nil {
		return Message{}, t.err
	}
	for _, p := range t.parts {
		text, err := p.execute(data, &t.budget)
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
		n, ok := post.ParsePriority(text)
		if !ok {
			var err error
			if n, err = strconv.Atoi(text); err != nil || n < post.MinPriority || n > post.MaxPriority {
				return fmt.Errorf("%q is not a priority: min, low, normal, high, max, or -2 to 2", format.Line(text, 40))
			}
		}
		m.Priority = &n
	case "template_link":
		if text != "" && !format.IsWeb(text) {
			return fmt.Errorf("%q is not a web address", format.Line(text, 100))
		}
		m.Link = text
	}
	return nil
}

// execute runs a template. A panic in it is an error, too.
func (c compiled) execute(data map[string]any, b *budget) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("it cannot be executed")
		}
	}()
	if err := b.begin(c.nodes); err != nil {
		return "", err
	}
	out := output{budget: b}
	err = c.Execute(&out, data)
	return out.String(), cause(err)
}

// cause is an error without the parts that name the Go package.
func cause(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{errOutput, errRounds, errSteps, errBytes} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New(strings.TrimPrefix(err.Error(), "template: "))
}

// output is what a template has written.
type output struct {
	strings.Builder
	budget *budget
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	if o.Len()+len(b) > maxOutput {
		return 0, errOutput
	}
	if err := o.budget.spend(len(b)); err != nil {
		return 0, err
	}
	return o.Builder.Write(b)
}

// compile parses a template. Each value that it shows is escaped, and each round of a range is charged for: Go cannot interrupt a
// template that writes nothing.
func compile(source string, m Markup, b *budget) (c compiled, err error) {
	if len(source) > maxSource {
		return c, fmt.Errorf("a template has at most %d bytes", maxSource)
	}
	c.Template, err = template.New("template").Funcs(b.functions(m)).Parse(source)
	if err != nil {
		return c, cause(err)
	}
	if c.Tree == nil || len(c.Templates()) > 1 {
		return c, errors.New("define, block and template are not available")
	}
	r := rewriter{}
	err = r.list(c.Root)
	c.nodes = r.nodes
	return c, err
}

// rewriter checks the nodes of a template and adds what bounds it.
type rewriter struct{ nodes int }

// call returns the command that calls one of the functions that templates cannot name.
func call(name string, pos parse.Pos, args ...parse.Node) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: append([]parse.Node{parse.NewIdentifier(name).SetPos(pos)}, args...)}
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
		n.Pipe.Cmds = append(n.Pipe.Cmds, call(name, n.Pos))
		return nil
	case *parse.RangeNode:
		before := r.nodes
		err := r.branch(&n.BranchNode)
		nodes := r.nodes - before + 1
		n.Pipe.Cmds = append(n.Pipe.Cmds, call("_items", n.Pos))
		round := &parse.PipeNode{NodeType: parse.NodePipe, Pos: n.Pos, Cmds: []*parse.CommandNode{call("_round", n.Pos, &parse.NumberNode{NodeType: parse.NodeNumber, Pos: n.Pos, IsInt: true, Int64: int64(nodes), Text: strconv.Itoa(nodes)})}}
		n.List.Nodes = append([]parse.Node{&parse.ActionNode{NodeType: parse.NodeAction, Pos: n.Pos, Pipe: round}}, n.List.Nodes...)
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
