// Package docpages renders the documentation for the pages of both services.
package docpages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Start is the file of the first page.
const Start = "README.md"

// Page is a rendered page.
type Page struct {
	File     string // its path in the documentation
	Title    string
	Contents []Heading // of its sections
	HTML     template.HTML

	entries []entry
}

// Heading is a heading of a page, with its anchor.
type Heading struct{ Text, Anchor string }

// Docs is the documentation. It renders all pages when the first one is asked for, and is safe
// for concurrent use.
type Docs struct {
	files   fs.FS
	service string
	pages   func() (map[string]*Page, error)
}

// New returns the documentation in files, whose links are relative, for the pages of a service. The search ranks pages about
// other services last.
func New(files fs.FS, service string) *Docs {
	d := &Docs{files: files, service: service}
	d.pages = sync.OnceValues(d.render)
	return d
}

// Page returns the page of a file, "" for the first one. The error is [fs.ErrNotExist] for a file that isn't a page.
func (d *Docs) Page(file string) (*Page, error) {
	pages, err := d.pages()
	if err != nil {
		return nil, err
	}
	if file == "" {
		file = Start
	}
	if page := pages[file]; page != nil {
		return page, nil
	}
	return nil, fmt.Errorf("page %q: %w", file, fs.ErrNotExist)
}

func (d *Docs) render() (map[string]*Page, error) {
	pages := map[string]*Page{}
	err := fs.WalkDir(d.files, ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(file) != ".md" {
			return err
		}
		source, err := fs.ReadFile(d.files, file)
		if err == nil {
			pages[file], err = render(file, source)
		}
		return err
	})
	return pages, err
}

// ServePicture answers with a picture and reports whether file is one.
func (d *Docs) ServePicture(w http.ResponseWriter, r *http.Request, file string) bool {
	if ext := path.Ext(file); ext != ".webp" && ext != ".svg" {
		return false
	}
	body, err := fs.ReadFile(d.files, file)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(body)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	w.Header().Set("Cache-Control", "no-cache") // stored, but another version shows its own pictures
	http.ServeContent(w, r, strings.ToLower(file), time.Time{}, bytes.NewReader(body))
	return true
}
