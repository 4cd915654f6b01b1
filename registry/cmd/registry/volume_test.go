package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/filesystem"
)

func TestMain(m *testing.M) {
	program.Main()
	os.Exit(m.Run())
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// volume is a root directory, and what every file of the tree holds as long as
// nobody deletes anything.
type volume struct {
	t    *testing.T
	root string
	want map[string]string // by path below the root
}

func (v *volume) write(path, content string) {
	v.t.Helper()
	ok(v.t, os.MkdirAll(filepath.Dir(v.root+path), 0o755))
	ok(v.t, os.WriteFile(v.root+path, []byte(content), 0o644)) //nolint:gosec // what any registry may read
	v.want[path] = content
}

// picture is an image: its repository and tag, and its digests.
type picture struct {
	repo                    oci.Name
	tag                     oci.Tag
	manifest, config, layer oci.Digest
}

func (v *volume) blob(repo oci.Name, content string) oci.Digest {
	d := oci.SHA256.FromBytes([]byte(content))
	v.write(layout.BlobData(d), content)
	v.write(layout.LayerLink(repo, d), string(layout.Link(d)))
	return d
}

// push writes an image, as a registry does.
func (v *volume) push(i int) picture {
	p := picture{repo: oci.Name(fmt.Sprint("r", i%4)), tag: oci.Tag(fmt.Sprint("t", i))}
	config, layer := fmt.Sprintf(`{"config":%d}`, i), strings.Repeat(fmt.Sprint("layer ", i), 100)
	p.config, p.layer = v.blob(p.repo, config), v.blob(p.repo, layer)
	body := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},`+
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":%d}]}`, oci.MediaTypeManifest, p.config, len(config), p.layer, len(layer))
	p.manifest = oci.SHA256.FromBytes([]byte(body))
	link := string(layout.Link(p.manifest))
	v.write(layout.BlobData(p.manifest), body)
	v.write(layout.RevisionLink(p.repo, p.manifest), link)
	v.write(layout.TagIndex(p.repo, p.tag, p.manifest), link)
	v.write(layout.TagCurrent(p.repo, p.tag), link)
	return p
}

// pullAll reads the images through a registry.
func (v *volume) pullAll(images []picture) {
	v.t.Helper()
	store, err := filesystem.Open(v.root)
	ok(v.t, err)
	defer store.Close()
	rules := registry.New(registry.Options{Store: store})
	for _, p := range images {
		repo := rules.Repository(p.repo)
		if m, err := repo.Manifest(v.t.Context(), oci.Reference{Tag: p.tag}); err != nil || m.Digest != p.manifest {
			v.t.Errorf("%s:%s is %v, %v", p.repo, p.tag, m, err)
		}
		for _, d := range []oci.Digest{p.config, p.layer} {
			b, err := repo.OpenBlob(v.t.Context(), d)
			if err != nil {
				v.t.Errorf("%s: %v", d, err)
				continue
			}
			content, err := io.ReadAll(b)
			if got := oci.SHA256.FromBytes(content); err != nil || got != d {
				v.t.Errorf("%s reads as %s, %v", d, got, err)
			}
			ok(v.t, b.Close())
		}
	}
}
