package harness

import (
	"net/http"
	"strings"
	"testing"
)

// Exchange has each of two registries serve what the other one has pushed to the storage that they share: an
// image, an index, the lists, and then a retag and a deletion. The seed makes it other images.
func Exchange(t *testing.T, ours, theirs, repo string, seed uint64) {
	t.Helper()
	img := NewImage(t, seed, 3, 300_000)
	idx := NewIndex(t, NewImage(t, seed+1, 2, 10_000), NewImage(t, seed+2, 1, 10_000))
	for way, addrs := range map[string][2]string{"ours-to-theirs": {ours, theirs}, "theirs-to-ours": {theirs, ours}} {
		t.Run(way, func(t *testing.T) { exchange(t, addrs[0], addrs[1], repo+"/"+way, img, idx) })
	}
}

func exchange(t *testing.T, from, to, repo string, img, idx *Image) {
	img.Push(t, from, repo, "image")
	idx.Push(t, from, repo, "index")
	img.Pulls(t, to, repo, "image")
	idx.Pulls(t, to, repo, "index")
	if got := ListTags(t, to, repo); got != "image index" {
		t.Errorf("tags = %q, want both", got)
	}
	if _, body := Fetch(t, "GET", "http://"+to+"/v2/_catalog", nil, nil); !strings.Contains(string(body), `"`+repo+`"`) {
		t.Errorf("catalog lacks %s: %s", repo, body)
	}
	PushManifest(t, from, repo, "image", idx.Blobs[idx.Manifest])
	idx.Pulls(t, to, repo, "image")
	DeleteReference(t, from, repo, idx.Manifest)
	if resp, _ := Fetch(t, "GET", "http://"+to+"/v2/"+repo+"/manifests/index", AcceptAll, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET of a tag whose manifest was deleted: %s, want 404", resp.Status)
	}
}
