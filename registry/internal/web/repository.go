package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
)

// The orders of tags: the last push first, unless the address names another.
const (
	byPush         = ""
	byName         = "name"
	byNameReversed = "-name"
	byCreated      = "created"
	bySize         = "size"
)

var tagSorts = []string{byPush, byName, byNameReversed, byCreated, bySize}

// maxSorted is the number of tags that can be sorted by anything but their names.
const maxSorted = 1000

// maxPushed is the number of tags that can be sorted by their last push, which is in the storage alone.
const maxPushed = 200

// tagRow is a tag in the list of a repository.
type tagRow struct {
	Tag       string
	Digest    oci.Digest
	Pushed    time.Time          // zero = unknown
	Image     *imageinfo.Summary // nil if the manifest can't be read
	Protected bool               // neither moved nor deleted
	Referrers []string           // what else is attached to the image
	Scan      *scanned           // the worst of its scan reports, nil = it has none
}

type repositoryPage struct {
	frame
	Repository oci.Name
	Crumbs     []entry
	Rows       []tagRow
	Tags       int // of the repository
	Matching   int
	Query      string
	Sort       string
	Sorts      []sortLink
	Previous   string
	Next       string
	Cache      bool
	Host       string
	Rights     rights
	Keeps      bool                  // deletions can be undone
	Rules      bool                  // a page shows the visitor's rights
	Untagged   bool                  // a page shows the visitor images without tags
	Known      *pageindex.Repository // what was read of it, nil = nothing yet
	Whole      bool                  // the visitor may see all repositories
}

type sortLink struct {
	Name, Text, Href string
	On               bool
}

// rights are the changes that the visitor may make here.
type rights struct {
	Push, Delete bool
}

func (web *Web) rights(v *visit, name oci.Name) rights {
	if web.o.ReadOnly || web.o.Caches(name) || v.csrf == "" {
		return rights{}
	}
	return rights{Push: v.may(access.Push, name), Delete: web.o.DeleteEnabled && v.may(access.Delete, name)}
}

// repository is the repository of the path, if the visitor may pull from it.
func (web *Web) repository(v *visit) (registry.Repository, error) {
	return web.pullable(v, mux.Vars(v.Request)["name"])
}

func (web *Web) pullable(v *visit, text string) (registry.Repository, error) {
	name, err := oci.ParseName(text)
	if err != nil || !v.may(access.Pull, name) {
		return registry.Repository{}, errHidden
	}
	return web.o.Registry.Repository(name), nil
}

func (web *Web) getRepository(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	all, _, err := repo.Tags(v.Context(), -1, "")
	if err != nil {
		return err
	}
	name, q := repo.Name(), v.URL.Query()
	p := repositoryPage{
		frame: web.frame(v, "repositories", string(name)), Repository: name, Tags: len(all), Query: strings.TrimSpace(q.Get("q")), Sort: q.Get("sort"),
		Cache: web.o.Caches(name), Host: web.host(v.Request), Rights: web.rights(v, name), Keeps: web.restores(v), Rules: web.showsRights(v), Untagged: web.seesUntagged(v, name),
	}
	p.Known = web.known(name)
	p.Whole = web.seesAll(v)
	if i := strings.LastIndexByte(string(name), '/'); i >= 0 {
		p.Crumbs = crumbs(string(name[:i+1]))
	}
	if err := web.addRows(v, repo, &p, all, q.Get("page")); err != nil {
		return err
	}
	if err := web.addDetails(v, repo, p.Rows); err != nil {
		return err
	}
	return web.pages.Show(w, http.StatusOK, "repository", p)
}

// addRows adds the rows of one page of the tags that match, sorted.
func (web *Web) addRows(v *visit, repo registry.Repository, p *repositoryPage, all []string, number string) error {
	room, err := web.reserve(v, tagBytes*int64(len(all)))
	if err != nil {
		return err
	}
	defer room.Release()
	var rows []tagRow
	query := strings.ToLower(p.Query)
	for _, tag := range all {
		if strings.Contains(strings.ToLower(tag), query) {
			rows = append(rows, tagRow{Tag: tag})
		}
	}
	p.Matching = len(rows)
	if !slices.Contains(tagSorts, p.Sort) {
		p.Sort = byPush
	}
	if len(rows) > maxSorted && p.Sort != byNameReversed || len(rows) > maxPushed && p.Sort == byPush {
		p.Sort = byName
	}
	slices.SortFunc(rows, func(a, b tagRow) int { return natural(a.Tag, b.Tag) })
	byImage := map[string]func(a, b *imageinfo.Summary) int{
		byCreated: func(a, b *imageinfo.Summary) int { return b.Created.Compare(a.Created) },
		bySize:    func(a, b *imageinfo.Summary) int { return cmp.Compare(b.Size, a.Size) },
	}[p.Sort]
	switch {
	case p.Sort == byNameReversed:
		slices.Reverse(rows)
	case p.Sort == byPush:
		if err := addPushes(v, repo, rows); err != nil {
			return err
		}
		slices.SortStableFunc(rows, func(a, b tagRow) int { return b.Pushed.Compare(a.Pushed) })
	case byImage != nil:
		room.Shrink(0) // images need room, too
		for i := range rows {
			if err := web.addImage(v, repo, &rows[i]); err != nil {
				return err
			}
		}
		none := &imageinfo.Summary{}
		slices.SortStableFunc(rows, func(a, b tagRow) int { return byImage(cmp.Or(a.Image, none), cmp.Or(b.Image, none)) })
	}
	p.page(rows, web.base+"/repository/"+string(p.Repository), number)
	if p.Sort == byPush {
		return nil
	}
	return addPushes(v, repo, p.Rows)
}

// addPushes adds when the tags were pushed.
func addPushes(v *visit, repo registry.Repository, rows []tagRow) error {
	all := make([]oci.Tag, len(rows))
	for i := range rows {
		all[i] = oci.Tag(rows[i].Tag)
	}
	times, err := repo.PushedAt(v.Context(), all)
	for i := range times {
		rows[i].Pushed = times[i]
	}
	return err
}

// natural compares names with embedded numbers by value: v1.9 before v1.10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n == 0 || m == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits returns the length of the number that s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// page takes the rows of one page.
func (p *repositoryPage) page(rows []tagRow, path, number string) {
	link := func(sort, page string) string {
		return address(path, map[string]string{"q": p.Query, "sort": sort, "page": page})
	}
	for _, s := range [][2]string{{byPush, "Newest"}, {byName, "Name"}, {byNameReversed, "Name, last first"}, {byCreated, "Created"}, {bySize, "Largest"}} {
		if p.Matching <= maxSorted && (s[0] != byPush || p.Matching <= maxPushed) || s[0] == byName || s[0] == byNameReversed {
			p.Sorts = append(p.Sorts, sortLink{Name: s[0], Text: s[1], Href: link(s[0], ""), On: p.Sort == s[0]})
		}
	}
	p.Rows, p.Previous, p.Next = paged(rows, number, func(n int) string { return link(p.Sort, strconv.Itoa(n)) })
	p.Rows = slices.Clone(p.Rows) // without the others
}

// addImage adds what the image of a tag says.
func (web *Web) addImage(v *visit, repo registry.Repository, row *tagRow) error {
	if row.Digest != "" {
		return nil
	}
	if d, ok := repo.TagTarget(v.Context(), oci.Tag(row.Tag)); ok {
		if known := web.images.Known(repo.Name(), d); known != nil {
			if _, err := repo.PeekSize(v.Context(), d); err == nil {
				row.Digest, row.Image = d, known
				return nil
			}
		}
	}
	m, room, err := web.peek(v, repo, oci.Reference{Tag: oci.Tag(row.Tag)}, 0)
	if registry.IsLost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer room.Release()
	row.Digest = m.Digest
	row.Image, err = web.images.Summarize(v.Context(), repo, m, room.Shrink)
	return err
}

// addDetails adds what the images of the tags say, and what is attached to them.
func (web *Web) addDetails(v *visit, repo registry.Repository, rows []tagRow) error {
	found := &scans{web, v, repo, maxScanBytes}
	for i := range rows {
		if err := web.addImage(v, repo, &rows[i]); err != nil {
			return err
		}
		if rows[i].Image == nil {
			continue
		}
		rows[i].Protected = repo.Immutable(oci.Tag(rows[i].Tag))
		if err := found.addAttached(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// addAttached adds what is attached to an image: the worst of its scan reports, and the kinds of the rest.
func (s *scans) addAttached(row *tagRow) error {
	attached, err := s.attached(row.Digest)
	if err != nil {
		return err
	}
	reports, err := s.find(attached)
	if len(reports) > 0 {
		row.Scan = &reports[0]
	}
	for _, a := range attached {
		shown := row.Scan != nil && a.Kind == imageinfo.ScanReport || slices.ContainsFunc(reports, func(s scanned) bool { return s.Manifest == a.Digest })
		if !shown && !slices.Contains(row.Referrers, a.Kind) {
			row.Referrers = append(row.Referrers, a.Kind)
		}
	}
	return err
}

// maxReferrers is the number of referrers that a page shows of one image.
const maxReferrers = 50
