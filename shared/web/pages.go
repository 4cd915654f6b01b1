// Package web is what the pages of both services share: the frame around each page, its styles
// and script, forms and their protection, and the words for times and numbers. Pages are
// rendered on the server and work without script.
package web

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"strconv"
)

// Options describe the pages of a service.
type Options struct {
	Brand   string // the service's name, next to its icon
	Version string
	Base    string // what the paths of all pages begin with, such as "/ui"

	// Files hold static/icon.svg, static/extra.css, whose rules come after the shared ones, and
	// templates/NAME.html, which define "content", with templates/parts.html, which defines "foot"
	// and what several pages use.
	Files fs.FS
	Names []string // of the templates
	Words template.FuncMap
}

// Pages are the templates of a service, each a set of its own with the frame, and what the
// frame loads.
type Pages struct {
	o                          Options
	sets                       map[string]*template.Template
	style, icon, script, theme Asset
}

// New parses the templates.
func New(o Options) (*Pages, error) {
	p := &Pages{o: o, sets: map[string]*template.Template{}}
	all := maps.Clone(words)
	maps.Copy(all, o.Words)
	for _, name := range append([]string{helpName}, o.Names...) {
		t, err := template.New(name).Funcs(all).ParseFS(files, "templates/frame.html")
		if err == nil {
			t, err = t.ParseFS(o.Files, "templates/parts.html")
		}
		if err == nil {
			from := o.Files
			if name == helpName {
				from = files
			}
			t, err = t.ParseFS(from, "templates/"+name+".html")
		}
		if err != nil {
			return nil, err
		}
		p.sets[name] = t
	}
	shared, err := files.ReadFile("static/style.css")
	if err != nil {
		return nil, err
	}
	script, err := files.ReadFile("static/web.js")
	if err != nil {
		return nil, err
	}
	theme, err := files.ReadFile("static/theme.js")
	if err != nil {
		return nil, err
	}
	extra, err := fs.ReadFile(o.Files, "static/extra.css")
	if err != nil {
		return nil, err
	}
	icon, err := fs.ReadFile(o.Files, "static/icon.svg")
	if err != nil {
		return nil, err
	}
	p.style = newAsset("style.css", "text/css; charset=utf-8", shared, extra)
	p.script = newAsset("web.js", "text/javascript; charset=utf-8", script)
	p.theme = newAsset("theme.js", "text/javascript; charset=utf-8", theme)
	p.icon = newAsset("icon.svg", "image/svg+xml", icon)
	return p, nil
}

// Link is an entry of the menu.
type Link struct {
	Href, Text string
	On         bool // the page is in this section
}

// Frame is the part that all pages share. Structs of pages embed it.
type Frame struct {
	Brand, Version string
	Base           string
	Title          string
	Section        string // of the menu
	Menu           []Link // none on a page that stands alone, such as the login
	Name           string // of the user; "" without a session
	Login          string // where a visitor without a session can log in; "" = nowhere
	CSRF           string
	Notice         string // what has just been done
	Problem        string // what went wrong
	Field          string // where

	Style, Icon, Script, Theme string
}

// Frame returns the frame of a page.
func (p *Pages) Frame(section, title string) Frame {
	path := func(a Asset) string { return p.o.Base + "/static/" + a.Name }
	return Frame{
		Brand: p.o.Brand, Version: p.o.Version, Base: p.o.Base, Section: section, Title: title,
		Style: path(p.style), Icon: path(p.icon), Script: path(p.script), Theme: path(p.theme),
	}
}

// Asset returns the file of that name.
func (p *Pages) Asset(name string) (Asset, bool) {
	for _, a := range []Asset{p.style, p.icon, p.script, p.theme} {
		if a.Name == name {
			return a, true
		}
	}
	return Asset{}, false
}

// Show answers with a page. It renders into a buffer first, so that a failing template leaves
// no partial page.
func (p *Pages) Show(w http.ResponseWriter, status int, name string, data any) error {
	body, err := p.Render(name, data)
	if err == nil {
		Send(w, status, body)
	}
	return err
}

// Render returns a page.
func (p *Pages) Render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.sets[name].ExecuteTemplate(&b, "frame", data); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// Send answers with a rendered page.
func Send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a closed connection needs no page
}

// Protect sets the headers that keep pages from running or loading anything foreign.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "strict-origin") // keeps searches out of logs
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
