package docpages

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds of a search.
const (
	maxQuery   = 100 // bytes
	maxWords   = 10
	maxHits    = 30
	maxPerPage = 4
)

// Hit is a section that a search found.
type Hit struct {
	File, Title string // of the page
	Heading     Heading
	Excerpt     string

	entry *entry
	score int
}

// entry is a section as the search reads it.
type entry struct {
	page       *Page
	heading    Heading
	text       *strings.Builder
	body       string // the text on one line
	title, low string // in lower case: page and heading, and the text
}

func newEntry(p *Page, h Heading) entry {
	return entry{page: p, heading: h, text: new(strings.Builder)}
}

func (e *entry) finish() {
	e.body = strings.Join(strings.Fields(e.text.String()), " ")
	e.title, e.low = strings.ToLower(e.page.Title+" "+e.heading.Text), strings.ToLower(e.body)
	e.text = nil
}

// Search returns the sections that contain all words of a query, the best first: those with the words in their headings before
// those with them in the text, and pages about other services and decisions last. It returns at most 30, and 4 of a page.
func (d *Docs) Search(query string) ([]Hit, error) {
	pages, err := d.pages()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(query[:min(len(query), maxQuery)]))
	if words = words[:min(len(words), maxWords)]; len(words) == 0 {
		return nil, nil
	}
	var hits []Hit
	for _, p := range pages {
		if p.File == Start {
			continue // it lists the others
		}
		var of []Hit
		for i := range p.entries {
			if score := p.entries[i].score(words); score > 0 {
				e := &p.entries[i]
				of = append(of, Hit{File: p.File, Title: p.Title, Heading: e.heading, entry: e, score: score})
			}
		}
		slices.SortStableFunc(of, func(a, b Hit) int { return b.score - a.score })
		hits = append(hits, of[:min(len(of), maxPerPage)]...)
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(d.distance(a.File), d.distance(b.File)), b.score-a.score, cmp.Compare(a.File, b.File), cmp.Compare(a.Heading.Anchor, b.Heading.Anchor))
	})
	hits = hits[:min(len(hits), maxHits)]
	for i := range hits {
		hits[i].Excerpt = hits[i].entry.excerpt(words)
	}
	return hits, nil
}

// distance is 0 for pages about the service or about all, and 1 for those about another one or about decisions.
func (d *Docs) distance(file string) int {
	if strings.HasPrefix(file, "decisions/") {
		return 1
	}
	for _, service := range []string{"registry", "relay"} {
		if service != d.service && (strings.HasPrefix(file, service+"/") || strings.Contains(file, "/"+service)) {
			return 1
		}
	}
	return 0
}

// score is 0 unless the section has all words.
func (e *entry) score(words []string) (score int) {
	for _, word := range words {
		n := min(strings.Count(e.low, word), 5)
		if strings.Contains(e.title, word) {
			n += 10
		}
		if strings.EqualFold(e.heading.Text, word) {
			n += 20
		}
		if n == 0 {
			return 0
		}
		score += n
	}
	return score
}

// excerpt returns the text around the first word that is in it.
func (e *entry) excerpt(words []string) string {
	const before, length = 60, 200
	at := 0
	for _, word := range words {
		if i := strings.Index(e.low, word); i >= 0 {
			at = i
			break
		}
	}
	start := 0
	if at > before {
		start = at - before
		start += strings.IndexByte(e.body[min(start, len(e.body)):]+" ", ' ')
	}
	start = min(start, len(e.body))
	end := min(start+length, len(e.body))
	text := strings.TrimSpace(strings.ToValidUTF8(e.body[start:end], ""))
	if end < len(e.body) {
		if i := strings.LastIndexByte(text, ' '); i > 0 {
			text = text[:i]
		}
		text += " …"
	}
	if start > 0 {
		text = "… " + text
	}
	return text
}
