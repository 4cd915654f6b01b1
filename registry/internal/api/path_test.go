package api

import (
	"net/url"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	for path, want := range map[string]target{
		"/":                                {place: atRoot},
		"/v2":                              {place: atRedirect},
		"/v2/":                             {place: atBase},
		"/v2/_catalog":                     {place: atCatalog},
		"/v2/_catalog/":                    {place: atRedirect},
		"/v2/a/tags/list":                  {atTags, "a", ""},
		"/v2/a/b/tags/list":                {atTags, "a/b", ""},
		"/v2/a/tags/list/":                 {place: atRedirect},
		"/v2/tags/list/tags/list":          {atTags, "tags/list", ""},
		"/v2/a/manifests/latest":           {atManifest, "a", "latest"},
		"/v2/a/manifests/list":             {atManifest, "a", "list"},
		"/v2/a/tags/manifests/list":        {atManifest, "a/tags", "list"},
		"/v2/a/manifests/manifests/x":      {atManifest, "a/manifests", "x"},
		"/v2/a/manifests/uploads":          {atManifest, "a", "uploads"},
		"/v2/a/blobs/sha256:0":             {atBlob, "a", "sha256:0"},
		"/v2/a/blobs/uploads":              {atUploads, "a", ""},
		"/v2/a/blobs/uploads/":             {atUploads, "a", ""},
		"/v2/a/blobs/uploads/id":           {atUpload, "a", "id"},
		"/v2/a/referrers/sha256:0":         {atReferrers, "a", "sha256:0"},
		"/v2/a/b/_slipway/repository":      {atRepository, "a/b", ""},
		"/v2/a//manifests/x":               {atManifest, "a/", "x"},
		"/v2/../manifests/x":               {atManifest, "..", "x"},
		"/v2/blobs/uploads/blobs/uploads/": {atUploads, "blobs/uploads", ""},

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
	} {
		if path != "/" {
			if got := locate(path); got != want {
				t.Errorf("locate(%q) = %+v, want %+v", path, got, want)
			}
			continue
		}
		if got := (&API{}).locate(&url.URL{Path: path}); got != want {
			t.Errorf("locate(%q) = %+v, want %+v", path, got, want)
		}
	}
}

func TestLocateBelowAPrefix(t *testing.T) {
	a := &API{urls: urls{prefix: "/reg"}}
	for path, want := range map[string]place{
		"/":                       atRoot,
		"/reg/v2/":                atBase,
		"/reg/v2":                 atRedirect,
		"/v2/":                    nowhere,
		"/regv2/":                 nowhere,
		"/reg/v2/a%2fb/tags/list": atTags,
		"/reg/v2/a%2Eb/tags/list": atTags,
	} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.locate(u); got.place != want {
			t.Errorf("%s: %+v, want %d", path, got, want)
		}
	}
}

func FuzzLocate(f *testing.F) {
	for _, s := range []string{"/v2/", "/v2/a/blobs/uploads/x", "/v2/a/tags/list", "/v2/../..", "/v2//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := locate(path)
		if strings.Contains(got.last, "/") || (got.place >= atTags) != (got.name != "") {
			t.Errorf("locate(%q) = %+v", path, got)
		}
		if got.name != "" && !strings.HasPrefix(path, "/v2/"+got.name+"/") {
			t.Errorf("locate(%q): the name %q is not in its place", path, got.name)
		}
	})
}
