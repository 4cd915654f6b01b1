package config

import (
	"fmt"
	"os"
	"strings"
)

// settle deals with the keys that are not simply decoded: those of parts to
// come and parts gone, those with a new name, and files holding secrets.
func (l *loader) settle(f *field, n *node) {
	switch {
	case n == nil:
	case f.kind == section && n.shape == mapping:
		for _, c := range f.children {
			if kid := n.kid(c.name); kid != nil {
				l.settleKey(c, n, kid)
			}
		}
	case n.shape == sequence:
		for _, item := range n.items {
			l.settle(f.elem, item)
		}
	case f.kind == dict:
		for _, kid := range n.kids {
			l.settle(f.elem, kid)
		}
	}
}

func (l *loader) settleKey(f *field, in, n *node) {
	why := f.tag.Get("why")
	switch f.kind {
	case refused:
		if f.tag.Get("empty") != "ok" || !n.empty() {
			l.fail(n, n.path+" is not supported: "+why)
		}
	case dead:
		l.warnf("%s does nothing: %s (%s)", n.path, why, n.origin)
	case moved:
		l.move(f, n)
	case twin:
		l.readSecret(f, in, n)
		return
	default:
		l.settle(f, n)
		return
	}
	in.drop(f.name)
}

func (l *loader) fail(n *node, text string) {
	l.problems.list = append(l.problems.list, &Problem{Key: n.path, Origin: n.origin, Text: text, whole: true})
}

// move brings the value to the key's new name, unless that is given.
func (l *loader) move(f *field, n *node) {
	to := f.tag.Get("to")
	l.warnf("%s is an old name of %s (%s)", n.path, to, n.origin)
	steps, _, _ := l.schema.resolve(strings.ToUpper(strings.ReplaceAll(to, ".", "_")), nil)
	if other := l.root.at(to); steps != nil && (other == nil || other.shape == null) {
		l.put(l.root, "", steps, n)
	}
}

// at returns the node of a path of plain keys.
func (n *node) at(path string) *node {
	for key := range strings.SplitSeq(path, ".") {
		n = n.kid(key)
	}
	return n
}

// maxSecret bounds what is read from a secret's file.
const maxSecret = 64 << 10

// readSecret replaces the twin by the secret it names.
func (l *loader) readSecret(f *field, in, n *node) {
	in.drop(f.name)
	name := strings.TrimSuffix(f.name, "_file")
	if n.shape != scalar || n.text == "" {
		return
	}
	if other := in.kid(name); other != nil && other.shape != null {
		where := ""
		if other.origin != n.origin {
			where = " (" + other.origin.String() + ")"
		}
		l.problems.add(n.path, n.origin, "is given beside %s%s; keep one", strings.TrimSuffix(n.path, "_file"), where)
		return
	}
	text, err := secretFrom(n.text)
	if err != nil {
		l.problems.add(n.path, n.origin, "%v", err)
		return
	}
	secret := &node{shape: scalar, text: text, quoted: true, tag: "!!str", origin: Origin{File: n.text}}
	secret.path, secret.field = strings.TrimSuffix(n.path, "_file"), f.parent.child(name)
	in.put(name, secret)
}

func secretFrom(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", Unreadable(path, err))
	}
	if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 || info.Size() > maxSecret {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", path, maxSecret)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", Unreadable(path, err))
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
