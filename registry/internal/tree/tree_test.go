package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

func store(t *testing.T, objects map[string]string) driver.Driver {
	t.Helper()
	d := memory.New()
	for path, content := range objects {
		if err := d.Commit(t.Context(), driver.Stage{{Path: path, Content: []byte(content)}}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func TestRepositories(t *testing.T) {
	d := store(t, map[string]string{
		layout.TagCurrent("a", "v1"):                string(sum("x")),
		layout.LayerLink("a/b/c", sum("x")):         string(sum("x")),
		layout.UploadStartedAt("a-b", "id"):         "now",
		layout.Repositories + "/Stranger/_layers/x": "",
	})
	var got []string
	for name, err := range Repositories(t.Context(), d) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(name))
	}
	if strings.Join(got, " ") != "a a/b/c a-b" {
		t.Errorf("got %v", got)
	}
	got = nil
	for name, err := range Everything(t.Context(), d) {
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
	d := store(t, map[string]string{
		layout.TagCurrent("a", "good"):                   string(sum("x")) + "\n",
		layout.TagCurrent("a", "empty"):                  "",
		layout.TagCurrent("a", "bad"):                    "nonsense",
		layout.TagCurrent("a", "long"):                   strings.Repeat("x", 1000),
		layout.TagIndex("a", "without-link", sum("x")):   string(sum("x")),
		layout.Layers("a", oci.SHA256) + "/not-hex/link": "x",
		layout.LayerLink("a", oci.SHA512.FromBytes(nil)): string(sum("alias")),
	})
	want := map[oci.Tag]error{"good": nil, "empty": layout.ErrEmptyLink, "bad": layout.ErrBadLink, "long": layout.ErrBadLink}
	for tag, err := range Tags(t.Context(), d, "a") {
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
	for l, err := range Layers(t.Context(), d, "a") {
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
		s := fmt.Sprint(i)
		objects[layout.BlobData(sum(s))] = s
	}
	objects[layout.BlobData(oci.SHA512.FromBytes(nil))] = ""
	objects[layout.BlobData(oci.SHA384.FromBytes(nil))] = ""
	d := store(t, objects)
	list := func(after oci.Digest) (all []oci.Digest) {
		for digest, err := range Blobs(t.Context(), d, after) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, digest)
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
	d := store(t, map[string]string{
		layout.BlobData(sum("damaged")):          good,
		layout.BlobData(sum(bad)):                bad,
		layout.Aside(layout.BlobData(sum(good))): good, // a collector of garbage has it
	})
	if m, size, err := Manifest(t.Context(), d, sum(good), 100); err != nil || m.MediaType != oci.MediaTypeIndex || size != int64(len(good)) {
		t.Errorf("got %+v, %d, %v", m, size, err)
	}
	for digest, want := range map[oci.Digest]error{sum("damaged"): ErrDamaged, sum(bad): ErrNotManifest, sum("none"): driver.ErrNotExist} {
		if _, _, err := Manifest(t.Context(), d, digest, 100); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if _, _, err := Manifest(t.Context(), d, sum(bad), 3); !errors.Is(err, driver.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}
