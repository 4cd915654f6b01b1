package layout

import (
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	name = oci.Name("a/b")
	tag  = oci.Tag("v1.0")
	id   = "0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6a"
	hexa = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	dgst = oci.Digest("sha256:" + hexa)
)

// The expected values are written out: they are what distribution 2.8.2 and
// 3.1.2 have on disk.
func TestPaths(t *testing.T) {
	sha512 := oci.SHA512.FromBytes(nil)
	repo := "/docker/registry/v2/repositories/a/b"
	tests := []struct{ got, want string }{
		{Blobs, "/docker/registry/v2/blobs"},
		{BlobData(dgst), "/docker/registry/v2/blobs/sha256/e3/" + hexa + "/data"},
		{BlobDir(dgst), "/docker/registry/v2/blobs/sha256/e3/" + hexa},
		{Repositories, "/docker/registry/v2/repositories"},
		{Repository(name), repo},
		{Layers(name, oci.SHA256), repo + "/_layers/sha256"},
		{LayerLink(name, dgst), repo + "/_layers/sha256/" + hexa + "/link"},
		{LayerLink(name, sha512), repo + "/_layers/sha512/" + sha512.Hex() + "/link"},
		{Manifests(name), repo + "/_manifests"},
		{Revisions(name, oci.SHA256), repo + "/_manifests/revisions/sha256"},
		{RevisionLink(name, dgst), repo + "/_manifests/revisions/sha256/" + hexa + "/link"},
		{RevisionLink(name, sha512), repo + "/_manifests/revisions/sha512/" + sha512.Hex() + "/link"},
		{Tags(name), repo + "/_manifests/tags"},
		{Tag(name, tag), repo + "/_manifests/tags/v1.0"},
		{TagCurrent(name, tag), repo + "/_manifests/tags/v1.0/current/link"},
		{TagIndex(name, tag, dgst), repo + "/_manifests/tags/v1.0/index/sha256/" + hexa + "/link"},
		{Uploads(name), repo + "/_uploads"},
		{Upload(name, id), repo + "/_uploads/" + id},
		{UploadData(name, id), repo + "/_uploads/" + id + "/data"},
		{UploadStartedAt(name, id), repo + "/_uploads/" + id + "/startedat"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
		if !storage.ValidKey(tt.got) {
			t.Errorf("%s is not a valid key", tt.got)
		}
	}
}

func TestParseTagIndex(t *testing.T) {
	for _, d := range []oci.Digest{dgst, oci.SHA512.FromBytes(nil)} {
		below := strings.TrimPrefix(TagIndex(name, tag, d), Tag(name, tag)+"/")
		if got, ok := ParseTagIndex(below); !ok || got != d {
			t.Errorf("%s is read as %q", below, got)
		}
	}
	if Tag(name, tag)+"/"+TagCurrentName != TagCurrent(name, tag) {
		t.Error("the current link has another name")
	}
	for _, other := range []string{TagCurrentName, "index", "index/sha256/x/link", "index/sha256/" + hexa, "other/sha256/" + hexa + "/link", ""} {
		if d, ok := ParseTagIndex(other); ok {
			t.Errorf("%q is read as %s", other, d)
		}
	}
}

func TestLongestPathIsValid(t *testing.T) {
	long := oci.Name(strings.Repeat("a/", 127) + "b")
	p := TagIndex(long, oci.Tag(strings.Repeat("T", oci.MaxTagLength)), oci.SHA512.FromBytes(nil))
	if !storage.ValidKey(p) {
		t.Errorf("a path of %d bytes is refused", len(p))
	}
}

func TestPathsCostOneAllocation(t *testing.T) {
	var sink string
	for name, f := range map[string]func(){
		"LayerLink":    func() { sink = LayerLink(name, dgst) },
		"RevisionLink": func() { sink = RevisionLink(name, dgst) },
		"TagCurrent":   func() { sink = TagCurrent(name, tag) },
		"UploadData":   func() { sink = UploadData(name, id) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 1 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	_ = sink
}

func TestPrivate(t *testing.T) {
	for name, want := range map[string]bool{"_layers": true, "_manifests": true, "_index": true, "b": false, "": false} {
		if got := Private(name); got != want {
			t.Errorf("Private(%q) = %v, want %v", name, got, want)
		}
	}
}
