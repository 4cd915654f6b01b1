package metrics

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"slipway/tools/harness"
)

// Series holds the metrics that the services export: the labels of each series, by name.
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
	harness.Wait(t, func() error {
		page = request(t, http.MethodGet, url, "", "")
		for _, name := range wanted {
			if !strings.Contains(page, "\n"+name) {
				return fmt.Errorf("%s has no %s:\n%s", url, name, page)
			}
		}
		return nil
	})
	return page
}

// request does a request, as the user that the URL names, and returns the
// answer's body.
func request(t testing.TB, method, url, body, contentType string) string {
	t.Helper()
	_, answer := harness.Ask(t, nil, method, url, strings.NewReader(body), harness.Header("Content-Type", contentType)) //nolint:bodyclose // Ask has read and closed it
	return answer
}
