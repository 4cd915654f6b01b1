package metrics

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Series is what the services export: the labels of each series, by name.
type Series map[string][]map[string]string

var (
	line = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$`)
	pair = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// add takes over a page of metrics.
func (s Series) add(page string) {
	for _, m := range line.FindAllStringSubmatch(page, -1) {
		labels := map[string]string{}
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			labels[p[1]] = p[2]
		}
		s[m[1]] = append(s[m[1]], labels)
	}
}

// scrape reads a page of metrics until all of the names are on it.
func scrape(t testing.TB, url string, wanted ...string) string {
	t.Helper()
	var page string
	if !eventually(func() bool {
		page = request(t, http.MethodGet, url, "", "")
		for _, name := range wanted {
			if !strings.Contains(page, "\n"+name) {
				return false
			}
		}
		return true
	}) {
		t.Fatalf("%s never had all of %v:\n%s", url, wanted, page)
	}
	return page
}

// request does a request, as the user that the URL names, and returns the
// answer's body.
func request(t testing.TB, method, url, body, contentType string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
