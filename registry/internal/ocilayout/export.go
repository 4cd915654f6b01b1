package ocilayout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Item is a repository to export, or one manifest of it.
type Item struct {
	Name oci.Name
	Ref  oci.Reference // zero = all tags
}

// ParseItem reads REPO, REPO:TAG or REPO@DIGEST.
func ParseItem(s string) (item Item, err error) {
	name, ref, found := strings.Cut(s, "@")
	if found {
		item.Ref.Digest, err = oci.ParseDigest(ref)
	} else if name, ref, found = strings.Cut(s, ":"); found {
		item.Ref.Tag, err = oci.ParseTag(ref)
	}
	if err != nil {
		return item, fmt.Errorf("%s: %w", s, err)
	}
	if item.Name, err = oci.ParseName(name); err != nil {
		return item, fmt.Errorf("%s: %w", s, err)
	}
	return item, nil
}

// Report counts the content that was exported or imported.
type Report struct {
	Tags      int      `json:"tags"`
	Manifests int      `json:"manifests"`
	Blobs     int      `json:"blobs"`
	Bytes     int64    `json:"bytes"`
	Notes     []string `json:"notes,omitempty"` // what was left out, by right
}

// Export reads repositories through puller and writes the items with all that they refer to and all that refers to
// them into a new layout. Each blob is checked against its digest. Tags
// are the names of entries; with several repositories, "repository:tag" is.
func Export(ctx context.Context, puller func(oci.Name) registry.Puller, items []Item, path string) (Report, error) {
	t, err := create(path)
	if err != nil {
		return Report{}, err
	}
	e := &export{ctx: ctx, puller: puller, target: t, written: map[oci.Digest]bool{}, walked: map[walked]bool{}, entered: map[oci.Digest]bool{}}
	for _, item := range items {
		e.several = e.several || item.Name != items[0].Name
	}
	if err := e.run(items); err != nil {
		return e.report, errors.Join(err, t.discard())
	}
	return e.report, t.finish()
}

type export struct {
	ctx     context.Context
	puller  func(oci.Name) registry.Puller
	target  target
	several bool // repositories
	index   index
	wrapped []*wrapper
	report  Report

	written map[oci.Digest]bool
	walked  map[walked]bool
	entered map[oci.Digest]bool // in the index, without a name
}

type walked struct {
	name   oci.Name
	digest oci.Digest
}

func (e *export) run(items []Item) error {
	if err := e.target.put(versionFile, int64(len(version)), strings.NewReader(version)); err != nil {
		return err
	}
	for _, item := range items {
		if err := e.item(item); err != nil {
			return err
		}
	}
	if err := e.wrappers(); err != nil {
		return err
	}
	e.index.SchemaVersion, e.index.MediaType = 2, oci.MediaTypeIndex
	content, err := json.Marshal(e.index)
	if err != nil {
		return err
	}
	return e.target.put(indexFile, int64(len(content)), bytes.NewReader(content))
}

func (e *export) item(item Item) error {
	repo := e.puller(item.Name)
	if item.Ref != (oci.Reference{}) {
		return e.root(repo, item.Ref)
	}
	tags, _, err := repo.Tags(e.ctx, -1, "")
	if err != nil {
		return fmt.Errorf("%s: %w", item.Name, err)
	}
	for _, tag := range tags {
		ref := oci.Reference{Tag: oci.Tag(tag)}
		if _, err := repo.Manifest(e.ctx, ref); oci.HasCode(err, oci.CodeManifestUnknown) {
			e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s:%s leads to a manifest that is not there", repo.Name(), tag))
			continue
		}
		if err := e.root(repo, ref); err != nil {
			return err
		}
	}
	return nil
}

// root writes what a tag or digest names and enters it into the index.
func (e *export) root(repo registry.Puller, ref oci.Reference) error {
	m, err := repo.Manifest(e.ctx, ref)
	if err != nil {
		return fmt.Errorf("%s:%s: %w", repo.Name(), ref, err)
	}
	if err := e.manifest(repo, m); err != nil {
		return err
	}
	entry := m.Descriptor
	entry.Annotations = map[string]string{}
	if ref.Tag != "" {
		e.report.Tags++
		entry.Annotations[refName] = string(ref.Tag)
		if e.several {
			entry.Annotations[refName] = string(repo.Name()) + ":" + string(ref.Tag)
		}
	}
	e.index.Manifests = append(e.index.Manifests, entry)
	if ref.Tag == "" {
		return nil
	}
	w, err := wrap(entry, m)
	if w != nil {
		e.wrapped = append(e.wrapped, w)
	}
	return err
}

// manifest writes a manifest, what it refers to, and what refers to it.
func (e *export) manifest(repo registry.Puller, m *registry.Manifest) error {
	at := walked{repo.Name(), m.Digest}
	if e.walked[at] {
		return nil
	}
	e.walked[at] = true
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return err
	}
	if parsed.Config != nil {
		if err := e.blob(repo, parsed.Config); err != nil {
			return err
		}
	}
	for i := range parsed.Layers {
		if err := e.layer(repo, &parsed.Layers[i]); err != nil {
			return err
		}
	}
	for i := range parsed.Manifests {
		if err := e.child(repo, m.Digest, &parsed.Manifests[i]); err != nil {
			return err
		}
	}
	if !e.written[m.Digest] {
		e.report.Manifests++
	}
	if err := e.write(m.Digest, m.Size, bytes.NewReader(m.Bytes)); err != nil {
		return err
	}
	return e.referrers(repo, m.Digest)
}

// child writes what an index lists: manifests, or blobs, as the caches of BuildKit
// do. The repository need not have all of it.
func (e *export) child(repo registry.Puller, by oci.Digest, d *oci.Descriptor) error {
	if !e.isDigest(repo, d) {
		return nil
	}
	m, err := repo.Manifest(e.ctx, oci.Reference{Digest: d.Digest})
	absent := oci.HasCode(err, oci.CodeManifestUnknown)
	if absent && !oci.IsManifest(d.MediaType) {
		err = e.blob(repo, d)
		if absent = oci.HasCode(err, oci.CodeBlobUnknown); !absent {
			return err
		}
	}
	if absent {
		e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s: %s lists %s, which is not there", repo.Name(), by, d.Digest))
		return nil
	}
	if err != nil {
		return err
	}
	return e.manifest(repo, m)
}

// layer writes a layer, unless it is stored elsewhere by design.
func (e *export) layer(repo registry.Puller, d *oci.Descriptor) error {
	if oci.IsManifest(d.MediaType) {
		return e.child(repo, "a manifest", d)
	}
	err := e.blob(repo, d)
	if oci.HasCode(err, oci.CodeBlobUnknown) && oci.NonDistributable(d.MediaType) && len(d.URLs) > 0 {
		e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s: layer %s lies elsewhere", repo.Name(), d.Digest))
		return nil
	}
	return err
}

// isDigest notes what distribution has stored without looking at it.
func (e *export) isDigest(repo registry.Puller, d *oci.Descriptor) bool {
	_, err := oci.ParseDigest(string(d.Digest))
	if err != nil {
		e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s: %.80q is no digest", repo.Name(), d.Digest))
	}
	return err == nil
}

func (e *export) blob(repo registry.Puller, d *oci.Descriptor) error {
	if e.written[d.Digest] || !e.isDigest(repo, d) {
		return nil
	}
	b, err := repo.OpenBlob(e.ctx, d.Digest)
	if err != nil {
		return fmt.Errorf("%s: %w", repo.Name(), err)
	}
	defer b.Close() //nolint:errcheck // it was only read
	return e.write(d.Digest, b.Size(), b)
}

// referrers writes what has the manifest as its subject.
func (e *export) referrers(repo registry.Puller, subject oci.Digest) error {
	for after := ""; ; {
		list, page, err := repo.Referrers(e.ctx, subject, "", after, 0)
		if err != nil {
			return err
		}
		for i := range list {
			if err := e.referrer(repo, &list[i]); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		after = page.Next
	}
}

func (e *export) referrer(repo registry.Puller, d *oci.Descriptor) error {
	m, err := repo.Manifest(e.ctx, oci.Reference{Digest: d.Digest})
	if err != nil {
		return err
	}
	if err := e.manifest(repo, m); err != nil {
		return err
	}
	if !e.entered[d.Digest] {
		e.entered[d.Digest] = true
		entry := *d
		entry.Annotations = maps.Clone(d.Annotations)
		delete(entry.Annotations, refName)
		delete(entry.Annotations, imageName)
		e.index.Manifests = append(e.index.Manifests, entry)
	}
	return nil
}

// write writes bytes once, and fails if they are not those of the digest.
func (e *export) write(d oci.Digest, size int64, content io.Reader) error {
	if e.written[d] {
		return nil
	}
	h := d.Algorithm().New()
	if err := e.target.put(blobFile(d), size, &checked{e.ctx, content, h, d}); err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	e.written[d] = true
	e.report.Blobs++
	e.report.Bytes += size
	return nil
}

// checked ends in an error if what was read is not that of the digest.
type checked struct {
	ctx     context.Context
	content io.Reader
	hash    hash.Hash
	want    oci.Digest
}

var errDamaged = errors.New("the bytes are not those of the digest")

func (c *checked) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.content.Read(b)
	c.hash.Write(b[:n])
	if errors.Is(err, io.EOF) && c.want.Algorithm().Digest(c.hash.Sum(nil)) != c.want {
		err = errDamaged
	}
	return n, err
}
