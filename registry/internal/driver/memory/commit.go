package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/registry/internal/driver"
)

var errIsDirectory = errors.New("a directory is in the way, or an object where a directory should be")

// Commit implements driver.Driver. Everything is checked first, so it is all
// or nothing.
func (d *Driver) Commit(_ context.Context, stages ...driver.Stage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer closeUploads(stages)
	for _, stage := range stages {
		for _, c := range stage {
			if err := d.check(c); err != nil {
				return err
			}
		}
	}
	for _, stage := range stages {
		for _, c := range stage {
			if err := d.apply(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func closeUploads(stages []driver.Stage) {
	for _, stage := range stages {
		for _, c := range stage {
			if u, ok := c.Upload.(*upload); ok {
				u.done = true
			}
		}
	}
}

func (d *Driver) check(c driver.Change) error {
	if !driver.ValidPath(c.Path) {
		return fmt.Errorf("%q: %w", c.Path, driver.ErrInvalidPath)
	}
	if c.Upload == nil {
		return nil
	}
	u, ok := c.Upload.(*upload)
	if !ok || u.d != d {
		return fmt.Errorf("upload %T of another driver", c.Upload)
	}
	return u.usable()
}

func (d *Driver) apply(c driver.Change) error {
	switch {
	case c.Remove:
		d.remove(c.Path)
		return nil
	case c.Upload != nil:
		u := c.Upload.(*upload)
		if err := d.put(c.Path, u.data.content); err != nil {
			return err
		}
		delete(d.uploads, u.path)
		return nil
	default:
		return d.put(c.Path, bytes.Clone(c.Content))
	}
}

// put needs d.mu, as all below do.
func (d *Driver) put(path string, content []byte) error {
	dir, name := d.root, path[1:]
	for {
		first, rest, more := strings.Cut(name, "/")
		if !more {
			break
		}
		next := dir.children[first]
		if next == nil {
			next = &node{children: map[string]*node{}, changed: time.Now()}
			d.setChild(dir, first, next)
		}
		if !next.dir() {
			return fmt.Errorf("%s: %w", path, errIsDirectory)
		}
		dir, name = next, rest
	}
	if old := dir.children[name]; old != nil && old.dir() {
		return fmt.Errorf("%s: %w", path, errIsDirectory)
	}
	now := time.Now()
	d.setChild(dir, name, &node{content: content, changed: now, moved: now})
	return nil
}

func (d *Driver) setChild(dir *node, name string, n *node) {
	d.changes++
	dir.version, n.version = d.changes, d.changes
	dir.children[name] = n
}

// remove takes away path, all below it, and the directories left empty.
func (d *Driver) remove(path string) {
	for p := range d.uploads {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(d.uploads, p)
		}
	}
	d.prune(d.root, path[1:])
}

func (d *Driver) prune(dir *node, path string) {
	first, rest, more := strings.Cut(path, "/")
	child := dir.children[first]
	if child == nil {
		return
	}
	if more && child.dir() {
		d.prune(child, rest)
	}
	if !more || child.dir() && len(child.children) == 0 {
		delete(dir.children, first)
		d.changes++
		dir.version = d.changes
	}
}
