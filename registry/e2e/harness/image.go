package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Image is an OCI image that a test made: everything it consists of, by digest.
type Image struct {
	Arch     string            // of the image, "" for an index
	Manifest string            // digest of the manifest or index
	Blobs    map[string][]byte // digest → bytes, manifests too
}

// Descriptor refers to a blob or manifest.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int               `json:"size"`
	Platform     map[string]string `json:"platform,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
}

// Media types.
const (
	TypeManifest = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex    = "application/vnd.oci.image.index.v1+json"
	TypeConfig   = "application/vnd.oci.image.config.v1+json"
	TypeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	TypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// NewImage makes an image of the given number of layers of about size random
// bytes each; seed makes it another one.
func NewImage(t testing.TB, seed uint64, layers, size int) *Image {
	t.Helper()
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	var archives [][]byte
	for i := range layers {
		content := make([]byte, size)
		rnd.Read(content)
		archives = append(archives, Tar(t, fmt.Sprintf("file-%d-%d", seed, i), content))
	}
	return ImageOf(t, []string{"amd64", "arm64", "riscv64"}[seed%3], archives...)
}

// ImageOf makes an image whose layers are the given archives.
func ImageOf(t testing.TB, arch string, archives ...[]byte) *Image {
	t.Helper()
	img := &Image{Arch: arch, Blobs: map[string][]byte{}}
	var descs []Descriptor
	var diffs []string
	for _, plain := range archives {
		diffs = append(diffs, DigestOf(plain))
		descs = append(descs, img.Add(TypeLayer, Gzip(t, plain)))
	}
	config := JSON(t, map[string]any{
		"architecture": img.Arch, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	manifest := JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": TypeManifest,
		"config": img.Add(TypeConfig, config), "layers": descs,
	})
	img.Manifest = img.Add(TypeManifest, manifest).Digest
	return img
}

// NewIndex makes an index over the images.
func NewIndex(t testing.TB, images ...*Image) *Image {
	t.Helper()
	idx := &Image{Blobs: map[string][]byte{}}
	var descs []Descriptor
	for _, img := range images {
		for d, b := range img.Blobs {
			idx.Blobs[d] = b
		}
		descs = append(descs, Descriptor{
			MediaType: TypeManifest, Digest: img.Manifest, Size: len(img.Blobs[img.Manifest]),
			Platform: map[string]string{"architecture": img.Arch, "os": "linux"},
		})
	}
	idx.Manifest = idx.Add(TypeIndex, JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": TypeIndex, "manifests": descs,
	})).Digest
	return idx
}

// Add makes b part of the image.
func (img *Image) Add(mediaType string, b []byte) Descriptor {
	d := DigestOf(b)
	img.Blobs[d] = b
	return Descriptor{MediaType: mediaType, Digest: d, Size: len(b)}
}

// Layout writes the image as an OCI layout with one tag, which skopeo, crane
// and regctl read.
func (img *Image) Layout(t testing.TB, tag string) string {
	t.Helper()
	dir := t.TempDir()
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	for d, b := range img.Blobs {
		WriteFile(t, filepath.Join(blobs, strings.TrimPrefix(d, "sha256:")), b)
	}
	WriteFile(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	WriteFile(t, filepath.Join(dir, "index.json"), JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": TypeIndex, "manifests": []Descriptor{{
			MediaType: img.MediaType(t), Digest: img.Manifest, Size: len(img.Blobs[img.Manifest]),
			Annotations: map[string]string{"org.opencontainers.image.ref.name": tag},
		}},
	}))
	return dir
}

// MediaType returns the media type that the manifest names.
func (img *Image) MediaType(t testing.TB) string {
	t.Helper()
	var m struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(img.Blobs[img.Manifest], &m); err != nil {
		t.Fatal(err)
	}
	return m.MediaType
}

// SameLayout fails unless dir is a layout that holds every blob of the image,
// byte for byte.
func (img *Image) SameLayout(t testing.TB, dir string) {
	t.Helper()
	for d, want := range img.Blobs {
		got, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")))
		if err != nil {
			t.Errorf("blob %s did not come back: %v", d, err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("blob %s came back with other bytes", d)
		}
	}
}

// Push sends the image over the bare API under the tag: blobs, then children,
// then the manifest itself.
func (img *Image) Push(t testing.TB, addr, repo, tag string) {
	t.Helper()
	manifests := img.Manifests(t)
	for d, b := range img.Blobs {
		if !slices.Contains(manifests, d) {
			PushBlob(t, addr, repo, d, b)
		}
	}
	for _, d := range manifests {
		ref := d
		if d == img.Manifest {
			ref = tag
		}
		PushManifest(t, addr, repo, ref, img.Blobs[d])
	}
}

// Pulls fails unless the registry gives back every blob of the image, byte for
// byte.
func (img *Image) Pulls(t testing.TB, addr, repo, tag string) {
	t.Helper()
	if resp, got := Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/manifests/"+tag, AcceptAll, nil); resp.StatusCode != http.StatusOK || !bytes.Equal(got, img.Blobs[img.Manifest]) {
		t.Errorf("GET manifest %s:%s on %s: %s, %d bytes; want 200 and the %d bytes pushed", repo, tag, addr, resp.Status, len(got), len(img.Blobs[img.Manifest]))
	}
	manifests := img.Manifests(t)
	for d, want := range img.Blobs {
		kind := "blobs"
		if slices.Contains(manifests, d) {
			kind = "manifests"
		}
		resp, got := Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/"+kind+"/"+d, AcceptAll, nil)
		if resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("GET %s %s of %s on %s: %s, %d bytes; want 200 and the %d bytes pushed", kind, d, repo, addr, resp.Status, len(got), len(want))
		}
	}
}

// Manifests lists the digests of manifests in the image, children first.
func (img *Image) Manifests(t testing.TB) []string {
	t.Helper()
	var m struct {
		Manifests []Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(img.Blobs[img.Manifest], &m); err != nil {
		t.Fatal(err)
	}
	var ds []string
	for _, child := range m.Manifests {
		ds = append(ds, child.Digest)
	}
	return append(ds, img.Manifest)
}

// PushByDigest is push without a tag.
func (img *Image) PushByDigest(t testing.TB, addr, repo string) {
	t.Helper()
	img.Push(t, addr, repo, img.Manifest)
}

// BlobList are the digests of the image's layers.
func (img *Image) BlobList(t *testing.T) []string {
	t.Helper()
	var m struct {
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(img.Blobs[img.Manifest], &m); err != nil || len(m.Layers) == 0 {
		t.Fatal("no layers", err)
	}
	var all []string
	for _, l := range m.Layers {
		all = append(all, l.Digest)
	}
	return all
}
