package replication

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registrytest"
)

func TestTurn_Deletions(t *testing.T) {
	for _, deletions := range []bool{false, true} {
		p := newPair(t, func(t *Target) { t.Deletions = deletions })
		repo := p.Registry.Repository("app")
		d := registrytest.PushImage(t, repo, "v1", "1", "layer")
		registrytest.PutManifest(t, repo, string(mustBytes(t, repo, d.Digest)), "v2", "v3")
		fallbackTag := oci.Tag("sha256-" + d.Digest.Hex())
		registrytest.PutManifest(t, p.there.Repository("app"), map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{}}, fallbackTag, "foreign")
		p.mustTurn(t, false)
		if _, err := repo.DeleteTag(t.Context(), "v2"); err != nil {
			t.Fatal(err)
		}
		kept := d.Digest
		if deletions {
			kept = ""
		}
		p.mustTurn(t, false)
		p.has(t, "app", "v1", d.Digest)
		p.has(t, "app", "v2", kept)
		if err := repo.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.mustTurn(t, false)
		p.has(t, "app", "v1", kept)
		_, foreign := p.there.Repository("app").TagTarget(t.Context(), "foreign")
		_, list := p.there.Repository("app").TagTarget(t.Context(), fallbackTag)
		if foreign == deletions || !list {
			t.Errorf("deletions: %v: the foreign tag is there: %v, the list of referrers: %v", deletions, foreign, list)
		}
	}
}

// A deletion at the target is logged once it is made.
func TestTurn_LogsDeletions(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Deletions = true })
	core, logs := observer.New(zap.InfoLevel)
	p.Log = zap.New(core)
	repo := p.Registry.Repository("app")
	registrytest.PushImage(t, repo, "v1", "1", "layer")
	p.mustTurn(t, false)
	if _, err := repo.DeleteTag(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	refuse := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodDelete
	}
	p.answer.Store(&refuse)
	if s, err := p.turn(t, false); err == nil || logs.FilterMessageSnippet("deleted").Len() > 0 {
		t.Errorf("%+v, %v; the log has %v", s, err, logs.All())
	}
	p.answer.Store(nil)
	p.mustTurn(t, false)
	if found := logs.FilterMessageSnippet("deleted"); found.Len() != 1 {
		t.Errorf("the log has %v", logs.All())
	}
}

// A registry that starts with another storage, and gets a push there, doesn't empty the repository at the target.
func TestTurn_LostStorage(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Deletions = true })
	d := registrytest.PushImage(t, p.Registry.Repository("app"), "new", "1", "layer")
	p.mustTurn(t, false)
	there := p.there.Repository("app")
	for i := range maxGone + 1 {
		registrytest.PutManifest(t, there, string(mustBytes(t, there, d.Digest)), oci.Tag(fmt.Sprint("v", i)))
	}
	if report, err := p.turn(t, true); err == nil || !strings.Contains(err.Error(), "11 of 12 tags at the target are not here") {
		t.Errorf("%+v, %v", report, err)
	}
	p.has(t, "app", "v0", d.Digest)
	if _, err := there.DeleteTag(t.Context(), "v0"); err != nil {
		t.Fatal(err)
	}
	p.mustTurn(t, true) // few enough
	p.has(t, "app", "v1", "")
}

// The same holds while its first push has no tag yet.
func TestTurn_LostStorage_NoTagYet(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Deletions = true })
	there := p.there.Repository("app")
	d := registrytest.PushImage(t, there, "v", "1", "layer")
	for i := range maxGone {
		registrytest.PutManifest(t, there, string(mustBytes(t, there, d.Digest)), oci.Tag(fmt.Sprint("v", i)))
	}
	registrytest.PushImage(t, p.Registry.Repository("app"), "", "2", "layer")
	if s, err := p.turn(t, true); err == nil || !strings.Contains(err.Error(), "11 of 11 tags at the target are not here") {
		t.Errorf("%+v, %v", s, err)
	}
	p.has(t, "app", "v", d.Digest)
	if err := p.Registry.Repository("app").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mustTurn(t, false)
	p.has(t, "app", "v", "")
}

// A repository that was deleted, and pushed to before the turn, loses at the target what it has lost here.
func TestTurn_DeletedAndPushed(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Deletions = true })
	repo := p.Registry.Repository("app")
	d := registrytest.PushImage(t, repo, "v", "1", "layer")
	for i := range maxGone + 1 {
		registrytest.PutManifest(t, repo, string(mustBytes(t, repo, d.Digest)), oci.Tag(fmt.Sprint("v", i)))
	}
	p.mustTurn(t, false)
	if err := repo.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = registrytest.PushImage(t, repo, "v0", "2", "layer")
	p.mustTurn(t, false)
	p.has(t, "app", "v", "")
	p.has(t, "app", "v0", d.Digest)
}
