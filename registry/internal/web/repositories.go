package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
)

// Bounds of a search: each word is looked for in each name.
const (
	maxWords = 10
	maxQuery = 1000 // bytes
)

// perPage is the number of rows that a list has.
const perPage = 50

// paged returns the rows of the page of that number, and the addresses of those around it.
func paged[T any](rows []T, number string, link func(n int) string) (page []T, previous, next string) {
	n, _ := strconv.Atoi(number)
	n = max(1, min(n, (len(rows)+perPage-1)/perPage))
	if n > 1 {
		previous = link(n - 1)
	}
	if n*perPage < len(rows) {
		next = link(n + 1)
	}
	return rows[min((n-1)*perPage, len(rows)):min(n*perPage, len(rows))], previous, next
}

// address is a path with those of the parameters that aren't "".
func address(path string, parameters map[string]string) string {
	query := url.Values{}
	for key, value := range parameters {
		if value != "" {
			query.Set(key, value)
		}
	}
	return path + "?" + query.Encode()
}

// entry is a row of the list: a repository, or a folder of those whose names begin alike.
type entry struct {
	Name   oci.Name              // of a repository
	Label  string                // of the entry in its folder
	Folder string                // "web/": the prefix of what is in it
	Count  int64                 // repositories in the folder
	Tags   int                   // of the repository
	Cache  bool                  // of another registry
	Known  *pageindex.Repository // what was read of the repository, nil = nothing yet
}

type repositoriesPage struct {
	frame
	Query    string
	Prefix   string
	Crumbs   []entry // folders around this one
	Entries  []entry
	Total    int  // entries on all pages
	Empty    bool // there is no repository that the visitor may see
	More     bool // not all repositories are listed
	Previous string
	Next     string
	LoginFor bool // logging in may show more
	Indexed  bool // sizes and dates are known
	Reading  bool // they are being read for the first time
	Whole    bool // the visitor may see all repositories
	Host     string
}

func (web *Web) getRepositories(w http.ResponseWriter, v *visit) error {
	q := v.URL.Query()
	p := repositoriesPage{frame: web.frame(v, "repositories", "Repositories"), Query: strings.TrimSpace(q.Get("q")), Prefix: q.Get("in"), Host: web.host(v.Request)}
	p.LoginFor = p.Login != ""
	if len(p.Query) > maxQuery || len(strings.Fields(p.Query)) > maxWords {
		return &refusal{http.StatusBadRequest, "A search has at most ten words and 1,000 bytes."}
	}
	all, more, err := web.names.list(v.Context())
	if err != nil {
		return err
	}
	p.More = more
	room, err := web.reserve(v, nameBytes*int64(len(all)))
	if err != nil {
		return err
	}
	defer room.Release()
	var seen []oci.Name
	for _, name := range all {
		if v.may(access.List, name) {
			seen = append(seen, name)
		}
	}
	p.Empty = len(seen) == 0
	entries := find(seen, p.Query)
	if p.Query == "" {
		entries = folder(seen, p.Prefix)
		p.Crumbs = crumbs(p.Prefix)
	}
	p.Total = len(entries)
	p.Entries, p.Previous, p.Next = paged(entries, q.Get("page"), func(n int) string {
		return address(web.base+"/", map[string]string{"q": p.Query, "in": p.Prefix, "page": strconv.Itoa(n)})
	})
	p.Entries = slices.Clone(p.Entries) // without the others
	room.Shrink(0)
	p.Indexed = web.o.Index.Want()
	p.Reading = web.o.Index != nil && !p.Indexed
	for i := range p.Entries {
		if err := web.describe(v, &p.Entries[i]); err != nil {
			return err
		}
	}
	p.Whole = web.seesAll(v)
	return web.pages.Show(w, http.StatusOK, "repositories", p)
}

// describe adds what the list says of a repository.
func (web *Web) describe(v *visit, e *entry) error {
	if e.Name == "" {
		return nil
	}
	e.Cache = web.o.Caches(e.Name)
	if e.Known = web.known(e.Name); e.Known != nil {
		e.Tags = e.Known.Tags
		return nil
	}
	tags, _, err := web.o.Registry.Repository(e.Name).Tags(v.Context(), -1, "")
	if e.Tags = len(tags); oci.IsUnknown(err) { // deleted a moment ago
		return nil
	}
	return err
}

// known returns what the index knows of a repository, nil if nothing, and has it read again.
func (web *Web) known(name oci.Name) *pageindex.Repository {
	if web.o.Index == nil {
		return nil
	}
	web.o.Index.Touch(name)
	if r, ok := web.o.Index.Repository(name); ok {
		return &r
	}
	return nil
}

// find returns the repositories whose names contain all words of the query.
func find(seen []oci.Name, query string) (entries []entry) {
	parts := strings.Fields(strings.ToLower(query))
	for _, name := range seen {
		matches := true
		for _, part := range parts {
			matches = matches && strings.Contains(string(name), part)
		}
		if matches {
			entries = append(entries, entry{Name: name, Label: string(name)})
		}
	}
	return entries
}

// folder returns what is below a prefix: repositories, and a folder for several with the same next
// element of their names.
func folder(seen []oci.Name, prefix string) (entries []entry) {
	for _, name := range seen {
		rest, ok := strings.CutPrefix(string(name), prefix)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			entries = append(entries, entry{Name: name, Label: rest})
			continue
		}
		sub := prefix + first + "/"
		if n := len(entries); n > 0 && entries[n-1].Folder == sub {
			entries[n-1].Count++
			continue
		}
		entries = append(entries, entry{Name: name, Folder: sub, Label: first + "/", Count: 1})
	}
	for i := range entries {
		if e := &entries[i]; e.Count == 1 { // no folder for one
			*e = entry{Name: e.Name, Label: strings.TrimPrefix(string(e.Name), prefix)}
		} else if e.Folder != "" {
			e.Name = ""
		}
	}
	return entries
}

// crumbs are the folders around a prefix, and that itself.
func crumbs(prefix string) (list []entry) {
	at := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		if part != "" {
			at += part + "/"
			list = append(list, entry{Folder: at, Label: part})
		}
	}
	return list
}

// host precedes names in the commands of clients.
func (web *Web) host(r *http.Request) string {
	_, host, _ := strings.Cut(web.o.API.Root(r), "://")
	return host
}
