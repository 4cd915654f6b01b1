package upstream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

func TestTags_Pages(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("last") {
		case "":
			w.Header().Set("Link", `<http://another.example.org/v2/a/tags/list?last=b>; rel="next"`)
			io.WriteString(w, `{"tags":["a","b","-not a tag"]}`)
		case "b":
			w.Header().Set("Link", `</v2/secrets/tags/list?last=c>; rel="next"`)
			io.WriteString(w, `{"tags":["c"]}`)
		case "c":
			w.Header().Set("Link", `</v2/a/tags/list?last=b>; rel="prev"`)
			io.WriteString(w, `{"tags":["d"]}`)
		}
		if r.URL.Path != "/v2/a/tags/list" {
			t.Errorf("asked for %s", r.URL)
		}
	})
	tags, err := client(t, u, nil).Tags(t.Context(), "a")
	check(t, err)
	if fmt.Sprint(tags) != "[a b c d]" {
		t.Errorf("%v", tags)
	}
	u = serve(t, func(w http.ResponseWriter, r *http.Request) { // forever
		w.Header().Set("Link", fmt.Sprintf(`</v2/a/tags/list?last=%sx>; rel="next"`, r.URL.Query().Get("last")))
		io.WriteString(w, `{"tags":["`+strings.Repeat("a", 100)+`"]}`)
	})
	if _, err := client(t, u, nil).Tags(t.Context(), "a"); ReasonOf(err) != Invalid {
		t.Errorf("pages without an end: %v", err)
	}
}

func TestReferrers_Fallback(t *testing.T) {
	subject := digest([]byte("subject"))
	index := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"x/y","digest":"` + string(digest(layer)) + `","size":7}]}`
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/manifests/sha256-"+subject.Hex()) {
			io.WriteString(w, index)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	list, err := client(t, u, nil).Referrers(t.Context(), "a", subject)
	if err != nil || len(list) != 1 || list[0].Digest != digest(layer) {
		t.Errorf("%v, %v", list, err)
	}
	if list, err = client(t, u, nil).Referrers(t.Context(), "a", digest([]byte("other"))); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// However the link to the next page is written, the list goes on, or fails.
func TestTags_Links(t *testing.T) {
	for link, want := range map[string]string{
		`</v2/a/tags/list?last=b>; rel="next"`:                            "[a b c]", // a reverse proxy adds /pre
		`<tags?last=b>; rel=next`:                                         "[a b c]",
		`<?n=2&last=b>; title="x"; REL="next last"`:                       "[a b c]",
		`</pre/v2/a/tags/list?last=0>; rel="prev", <?last=b>; rel="next"`: "[a b c]",
		`<:>; rel="next"`:                                                 "[a b c]", // goes on behind b
		`</pre/v2/a/tags/list>; rel="next"`:                               "[a b c]",
		`</pre/v2/a/tags/list?last=b>; rel="prev"; title="next"`:          "[a b]",
		`</pre/v2/a/tags/list?last=b>; rel="nextone"`:                     "[a b]",
		`</pre/v2/a/tags/list?stuck>; rel="next"`:                         "",
	} {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/pre/v2/a/tags/list" {
				t.Errorf("%s: asked for %s", link, r.URL)
			}
			if r.URL.Query().Get("last") == "b" {
				io.WriteString(w, `{"tags":["c"]}`)
				return
			}
			w.Header().Set("Link", link)
			io.WriteString(w, `{"tags":["a","b"]}`)
		})
		u.Path = "/pre"
		tags, err := client(t, u, nil).Tags(t.Context(), "a")
		if want == "" && ReasonOf(err) != Invalid || want != "" && (err != nil || fmt.Sprint(tags) != want) {
			t.Errorf("%s: %v, %v", link, tags, err)
		}
	}
}

// GitLab takes the tag sha256-<hex> for the digest, so that the subject would refer to itself.
func TestReferrers_SubjectIsNotItsOwnReferrer(t *testing.T) {
	index := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + string(digest(layer)) + `","size":7}]}`)
	image := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"x/y","digest":"` + string(digest(layer)) + `","size":7},"layers":[]}`)
	for _, answer := range [][]byte{index, image} {
		for _, subject := range []oci.Digest{digest(answer), digest([]byte("another subject"))} {
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/manifests/sha256-"+subject.Hex()) {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Write(answer)
			})
			want := 0
			if oci.IsIndex(mediaType(answer)) && subject != digest(answer) {
				want = 1
			}
			list, err := client(t, u, nil).Referrers(t.Context(), "a", subject)
			if err != nil || len(list) != want {
				t.Errorf("%s of %s: %v, %v", answer, subject, list, err)
			}
		}
	}
}

func mediaType(manifest []byte) string {
	m, err := oci.ReadManifest(manifest)
	if err != nil {
		return ""
	}
	return m.MediaType
}
