package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func store(t *testing.T, objects map[string]string) storage.Store {
	t.Helper()
	s := memory.New()
	for key, content := range objects {
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content)}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func TestRepositories(t *testing.T) {
	s := store(t, map[string]string{
		layout.TagCurrent("a", "v1"):                string(sum("x")),
		layout.LayerLink("a/b/c", sum("x")):         string(sum("x")),
		layout.UploadStartedAt("a-b", "id"):         "now",
		layout.Repositories + "/Stranger/_layers/x": "",
	})
	var got []string
	for name, err := range Repositories(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(name))
	}
	if strings.Join(got, " ") != "a-b a a/b/c" {
		t.Errorf("got %v", got)
	}
	got = nil
	for name, err := range Everything(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(name))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != "Stranger a a-b a/b/c" {
		t.Errorf("everything: got %v", got)
	}
	for range Repositories(t.Context(), memory.New()) {
		t.Error("an empty storage has a repository")
	}
}

func TestLinks(t *testing.T) {
	s := store(t, map[string]string{
		layout.TagCurrent("a", "good"):                   string(sum("x")) + "\n",
		layout.TagCurrent("a", "empty"):                  "",
		layout.TagCurrent("a", "bad"):                    "nonsense",
		layout.TagCurrent("a", "long"):                   strings.Repeat("x", 1000),
		layout.TagIndex("a", "without-link", sum("x")):   string(sum("x")),
		layout.Layers("a", oci.SHA256) + "/not-hex/link": "x",
		layout.LayerLink("a", oci.SHA512.FromBytes(nil)): string(sum("alias")),
	})
	want := map[oci.Tag]error{"good": nil, "empty": layout.ErrEmptyLink, "bad": layout.ErrBadLink, "long": layout.ErrBadLink}
	for tag, err := range Tags(t.Context(), s, "a") {
		if err != nil {
			t.Fatal(err)
		}
		expected, known := want[tag.Name]
		if !known || !errors.Is(tag.Err, expected) || tag.Err == nil && tag.Target != sum("x") {
			t.Errorf("%s: %v, %v", tag.Name, tag.Target, tag.Err)
		}
		delete(want, tag.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
	n := 0
	for l, err := range Layers(t.Context(), s, "a") {
		n++
		if err != nil || l.Digest != oci.SHA512.FromBytes(nil) || l.Target != sum("alias") {
			t.Errorf("got %+v, %v", l, err)
		}
	}
	if n != 1 {
		t.Errorf("%d layers", n)
	}
}

// Blobs go on after any of them without leaving one out.
func TestBlobsAfter(t *testing.T) {
	objects := map[string]string{}
	for i := range 50 {
		content := fmt.Sprint(i)
		objects[layout.BlobData(sum(content))] = content
	}
	objects[layout.BlobData(oci.SHA512.FromBytes(nil))] = ""
	objects[layout.BlobData(oci.SHA384.FromBytes(nil))] = ""
	for _, stranger := range []string{"/sha256/ab/abc/data", "/sha256/ab/" + sum("0").Hex() + "/data", "/sha256/data", "/sha256/00/x", "/sha256/" + sum("0").Hex()[:2] + "/" + sum("0").Hex() + "/other"} {
		objects[layout.Blobs+stranger] = "x"
	}
	s := store(t, objects)
	list := func(after oci.Digest) (all []oci.Digest) {
		for b, err := range Blobs(t.Context(), s, after) {
			if err != nil || b.Size != int64(len(objects[b.Key])) {
				t.Fatalf("%+v, %v", b, err)
			}
			all = append(all, b.Digest)
		}
		return all
	}
	all := list("")
	if len(all) != 52 {
		t.Fatalf("%d blobs", len(all))
	}
	for i, after := range all {
		if got := list(after); !slices.Equal(got, all[i+1:]) {
			t.Fatalf("after %s: %d blobs, want %d", after, len(got), len(all)-i-1)
		}
	}
}

func TestManifest(t *testing.T) {
	const good, bad = `{"schemaVersion":2,"manifests":[]}`, `not json`
	s := store(t, map[string]string{
		layout.BlobData(sum("damaged")): good,
		layout.BlobData(sum(bad)):       bad,
		layout.BlobData(sum(good)):      good,
	})
	if m, size, err := Manifest(t.Context(), s, sum(good)); err != nil || m.MediaType != oci.MediaTypeIndex || size != int64(len(good)) {
		t.Errorf("got %+v, %d, %v", m, size, err)
	}
	for digest, want := range map[oci.Digest]error{sum("damaged"): ErrDamaged, sum(bad): ErrNotManifest, sum("none"): storage.ErrNotExist} {
		if _, _, err := Manifest(t.Context(), s, digest); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
