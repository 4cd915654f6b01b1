package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// image is an OCI image that a test made: everything it consists of, by digest.
type image struct {
	arch     string            // of the image, "" for an index
	manifest string            // digest of the manifest or index
	blobs    map[string][]byte // digest → bytes, manifests too
}

type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int               `json:"size"`
	Platform     map[string]string `json:"platform,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
}

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// newImage makes an image of the given number of layers of about size random
// bytes each; seed makes it another one.
func newImage(t testing.TB, seed uint64, layers, size int) *image {
	t.Helper()
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	var archives [][]byte
	for i := range layers {
		content := make([]byte, size)
		rnd.Read(content)
		archives = append(archives, tarOf(t, fmt.Sprintf("file-%d-%d", seed, i), content))
	}
	return imageOf(t, []string{"amd64", "arm64", "riscv64"}[seed%3], archives...)
}

// imageOf makes an image whose layers are the given archives.
func imageOf(t testing.TB, arch string, archives ...[]byte) *image {
	t.Helper()
	img := &image{arch: arch, blobs: map[string][]byte{}}
	var descs []descriptor
	var diffs []string
	for _, plain := range archives {
		diffs = append(diffs, digestOf(plain))
		descs = append(descs, img.add(typeLayer, gzipped(t, plain)))
	}
	config := mustJSON(t, map[string]any{
		"architecture": img.arch, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	manifest := mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": img.add(typeConfig, config), "layers": descs,
	})
	img.manifest = img.add(typeManifest, manifest).Digest
	return img
}

// newIndex makes an index over the images.
func newIndex(t testing.TB, images ...*image) *image {
	t.Helper()
	idx := &image{blobs: map[string][]byte{}}
	var descs []descriptor
	for _, img := range images {
		for d, b := range img.blobs {
			idx.blobs[d] = b
		}
		descs = append(descs, descriptor{
			MediaType: typeManifest, Digest: img.manifest, Size: len(img.blobs[img.manifest]),
			Platform: map[string]string{"architecture": img.arch, "os": "linux"},
		})
	}
	idx.manifest = idx.add(typeIndex, mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": descs,
	})).Digest
	return idx
}

func (img *image) add(mediaType string, b []byte) descriptor {
	d := digestOf(b)
	img.blobs[d] = b
	return descriptor{MediaType: mediaType, Digest: d, Size: len(b)}
}

// layout writes the image as an OCI layout with one tag, which skopeo, crane
// and regctl read.
func (img *image) layout(t testing.TB, tag string) string {
	t.Helper()
	dir := t.TempDir()
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		t.Fatal(err)
	}
	for d, b := range img.blobs {
		writeFile(t, filepath.Join(blobs, strings.TrimPrefix(d, "sha256:")), b)
	}
	writeFile(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	writeFile(t, filepath.Join(dir, "index.json"), mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{{
			MediaType: img.mediaType(t), Digest: img.manifest, Size: len(img.blobs[img.manifest]),
			Annotations: map[string]string{"org.opencontainers.image.ref.name": tag},
		}},
	}))
	return dir
}

func (img *image) mediaType(t testing.TB) string {
	t.Helper()
	var m struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(img.blobs[img.manifest], &m); err != nil {
		t.Fatal(err)
	}
	return m.MediaType
}

// sameLayout fails unless dir is a layout that holds every blob of the image,
// byte for byte.
func (img *image) sameLayout(t testing.TB, dir string) {
	t.Helper()
	for d, want := range img.blobs {
		got, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")))
		if err != nil {
			t.Errorf("blob %s did not come back: %v", d, err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("blob %s came back with other bytes", d)
		}
	}
}

// push sends the image over the bare API under the tag: blobs, then children,
// then the manifest itself.
func (img *image) push(t testing.TB, addr, repo, tag string) {
	t.Helper()
	manifests := img.manifests(t)
	for d, b := range img.blobs {
		if !slices.Contains(manifests, d) {
			pushBlob(t, addr, repo, d, b)
		}
	}
	for _, d := range manifests {
		ref := d
		if d == img.manifest {
			ref = tag
		}
		pushManifest(t, addr, repo, ref, img.blobs[d])
	}
}

// pulls fails unless the registry gives back every blob of the image, byte for
// byte.
func (img *image) pulls(t testing.TB, addr, repo, tag string) {
	t.Helper()
	if resp, got := fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/manifests/"+tag, acceptAll, nil); resp.StatusCode != 200 || !bytes.Equal(got, img.blobs[img.manifest]) {
		t.Errorf("GET manifest %s:%s on %s: %s, %d bytes; want 200 and the %d bytes pushed", repo, tag, addr, resp.Status, len(got), len(img.blobs[img.manifest]))
	}
	manifests := img.manifests(t)
	for d, want := range img.blobs {
		kind := "blobs"
		if slices.Contains(manifests, d) {
			kind = "manifests"
		}
		resp, got := fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/"+kind+"/"+d, acceptAll, nil)
		if resp.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Errorf("GET %s %s of %s on %s: %s, %d bytes; want 200 and the %d bytes pushed", kind, d, repo, addr, resp.Status, len(got), len(want))
		}
	}
}

var acceptAll = http.Header{"Accept": {typeManifest, typeIndex, typeDockerManifest, typeDockerList}}

// manifests lists the digests of manifests in the image, children first.
func (img *image) manifests(t testing.TB) []string {
	t.Helper()
	var m struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(img.blobs[img.manifest], &m); err != nil {
		t.Fatal(err)
	}
	var ds []string
	for _, child := range m.Manifests {
		ds = append(ds, child.Digest)
	}
	return append(ds, img.manifest)
}

func pushBlob(t testing.TB, addr, repo, digest string, b []byte) {
	t.Helper()
	resp, body := fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", nil, nil)
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("POST upload: %s %s", resp.Status, body)
	}
	location := absolute(t, addr, resp.Header.Get("Location"))
	resp, body = fetch(t, "PUT", withQuery(t, location, "digest", digest), nil, bytes.NewReader(b))
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("PUT blob: %s %s", resp.Status, body)
	}
}

func pushManifest(t testing.TB, addr, repo, ref string, b []byte) {
	t.Helper()
	var m struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	resp, body := fetch(t, "PUT", "http://"+addr+"/v2/"+repo+"/manifests/"+ref, http.Header{"Content-Type": {m.MediaType}}, bytes.NewReader(b))
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("PUT manifest %s: %s %s", ref, resp.Status, body)
	}
}

func absolute(t testing.TB, addr, location string) string {
	t.Helper()
	base := &url.URL{Scheme: "http", Host: addr, Path: "/"}
	u, err := base.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return u.String()
}

func withQuery(t testing.TB, rawURL, key, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func tarOf(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatalf("%v; `make tools` installs what the tests need", err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// joinTags reads a tag list, sorted, joined by spaces.
func joinTags(t testing.TB, body []byte) string {
	t.Helper()
	var list struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("tag list: %v in %s", err, body)
	}
	slices.Sort(list.Tags)
	return strings.Join(list.Tags, " ")
}
