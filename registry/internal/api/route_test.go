package api

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/gorilla/mux"
)

// matched is the route of a path: the name of its endpoint and its variables.
type matched struct{ endpoint, name, last string }

func match(a *API, path string) matched {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	var m mux.RouteMatch
	if a.router.Match(&http.Request{Method: get, URL: u}, &m); m.MatchErr != nil {
		return matched{}
	}
	e := m.Handler.(*endpoint)
	return matched{e.name, m.Vars["name"], m.Vars[e.last]}
}

func routed(t *testing.T, prefix string) *API {
	t.Helper()
	a, err := New(Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRoutes(t *testing.T) {
	a := routed(t, "")
	for path, want := range map[string]matched{
		"/":                                {endpoint: "root"},
		"/v2":                              {endpoint: routeNone},
		"/v2/":                             {endpoint: "base"},
		"/v2/_catalog":                     {endpoint: "catalog"},
		"/v2/_catalog/":                    {endpoint: routeNone},
		"/v2/a/tags/list":                  {"tags", "a", ""},
		"/v2/a/b/tags/list":                {"tags", "a/b", ""},
		"/v2/a/tags/list/":                 {routeNone, "a", ""},
		"/v2/tags/list/tags/list":          {"tags", "tags/list", ""},
		"/v2/a/manifests/latest":           {routeManifest, "a", "latest"},
		"/v2/a/manifests/list":             {routeManifest, "a", "list"},
		"/v2/a/tags/manifests/list":        {routeManifest, "a/tags", "list"},
		"/v2/a/manifests/manifests/x":      {routeManifest, "a/manifests", "x"},
		"/v2/a/manifests/uploads":          {routeManifest, "a", "uploads"},
		"/v2/a/blobs/sha256:0":             {"blob", "a", "sha256:0"},
		"/v2/a/blobs/uploads":              {routeUploads, "a", ""},
		"/v2/a/blobs/uploads/":             {routeUploads, "a", ""},
		"/v2/a/blobs/uploads/id":           {"blob_upload_chunk", "a", "id"},
		"/v2/a/referrers/sha256:0":         {"referrers", "a", "sha256:0"},
		"/v2/a/b/_slipway/repository":      {"repository", "a/b", ""},
		"/v2/a//manifests/x":               {routeManifest, "a/", "x"},
		"/v2/../manifests/x":               {routeManifest, "..", "x"},
		"/v2/blobs/uploads/blobs/uploads/": {routeUploads, "blobs/uploads", ""},
		"/v2/a%0Ab/manifests/x":            {routeManifest, "a\nb", "x"},

		"":                        {},
		"//":                      {},
		"/v3/":                    {},
		"/v2/a":                   {},
		"/v2/a/b/c":               {},
		"/v2/manifests/x":         {},
		"/v2//manifests":          {},
		"/v2/a/manifests/":        {},
		"/v2/a/manifests/x/":      {},
		"/v2/a/blobs/":            {},
		"/v2/a/blobs/uploads/id/": {},
		"/v2/tags/list":           {},
		"/v2/blobs/uploads/":      {},
		"/V2/":                    {},
		"/v2/_slipway/repository": {},
		"/v2/_slipway/robots":     {},
		"/debug/health":           {},
	} {
		if got := match(a, path); got != want {
			t.Errorf("%q leads to %+v, want %+v", path, got, want)
		}
	}
}

func TestRoutes_BelowAPrefix(t *testing.T) {
	a := routed(t, "/reg")
	for path, want := range map[string]string{
		"/":                       "root",
		"/reg/v2/":                "base",
		"/reg/v2":                 routeNone,
		"/v2/":                    "",
		"/regv2/":                 "",
		"/reg/v2/a%2fb/tags/list": "tags",
		"/reg/v2/a%2Eb/tags/list": "tags",
	} {
		if got := match(a, path); got.endpoint != want {
			t.Errorf("%s leads to %+v, want %s", path, got, want)
		}
	}
}
