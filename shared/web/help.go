package web

import (
	"io/fs"
	"net/http"
	"strings"

	"slipway/shared/docpages"
)

const helpName = "help" // of the template

// Help serves the documentation in the frame of a service's pages.
type Help struct {
	pages *Pages
	docs  *docpages.Docs
}

// Help returns the documentation for these pages. The search ranks pages about other services last.
func (p *Pages) Help(files fs.FS, service string) *Help {
	return &Help{pages: p, docs: docpages.New(files, service)}
}

// HelpPage is the part of a page of the documentation that goes into a service's frame.
type HelpPage struct {
	Page  *docpages.Page
	Query string // of a search; "" = the page is shown
	Hits  []docpages.Hit
}

// Serve answers a request for a file below /help/. Frame makes the data of the template from the title and the part. The error is
// [fs.ErrNotExist] if there is no such file.
func (h *Help) Serve(w http.ResponseWriter, r *http.Request, file string, frame func(title string, part HelpPage) any) error {
	if file == "" && !strings.HasSuffix(r.URL.Path, "/") { // links are relative
		http.Redirect(w, r, h.pages.o.Base+"/help/", http.StatusSeeOther)
		return nil
	}
	if h.docs.ServePicture(w, r, file) {
		return nil
	}
	var part HelpPage
	var err error
	if part.Page, err = h.docs.Page(file); err != nil {
		return err
	}
	title := part.Page.Title
	if part.Query = r.URL.Query().Get("q"); part.Query != "" {
		title = "Search the help"
		if part.Hits, err = h.docs.Search(part.Query); err != nil {
			return err
		}
	}
	return h.pages.Show(w, http.StatusOK, helpName, frame(title, part))
}
