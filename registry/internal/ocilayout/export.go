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
	"slices"
	"strings"

	"slipway/registry/internal/imagecopy"
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

// Export reads repositories through puller and writes the items with all that they refer to and all that refers to
// them into a new layout. Each blob is checked against its digest. Tags
// are the names of entries; with several repositories, "repository:tag" is.
func Export(ctx context.Context, puller func(oci.Name) registry.Puller, items []Item, path string) (imagecopy.Report, error) {
	w, err := create(path)
	if err != nil {
		return imagecopy.Report{}, err
	}
	e := &exporter{writer: w, written: map[oci.Digest]bool{}}
	e.several = slices.ContainsFunc(items, func(i Item) bool { return i.Name != items[0].Name })
	if err := e.run(ctx, puller, items); err != nil {
		return e.report, errors.Join(err, w.discard())
	}
	return e.report, w.finish()
}

// exporter is a layout as a target.
type exporter struct {
	writer    writer
	several   bool // repositories
	index     index
	referrers []oci.Descriptor
	wrapped   []*wrapper
	report    imagecopy.Report
	written   map[oci.Digest]bool
}

func (e *exporter) run(ctx context.Context, puller func(oci.Name) registry.Puller, items []Item) error {
	if err := e.writer.put(versionFile, int64(len(version)), strings.NewReader(version)); err != nil {
		return err
	}
	copiers := map[oci.Name]*imagecopy.Copier{}
	for _, item := range items {
		c := copiers[item.Name]
		if c == nil {
			c = imagecopy.New(imagecopy.Pulled{Puller: puller(item.Name)}, e, false, &e.report)
			copiers[item.Name] = c
		}
		if err := e.item(ctx, c, puller(item.Name), item); err != nil {
			return fmt.Errorf("%s: %w", item.Name, err)
		}
	}
	for _, d := range e.referrers {
		if !slices.ContainsFunc(e.index.Manifests, func(other oci.Descriptor) bool { return other.Digest == d.Digest }) {
			e.index.Manifests = append(e.index.Manifests, d)
		}
	}
	if err := e.wrappers(ctx); err != nil {
		return err
	}
	e.index.SchemaVersion, e.index.MediaType = 2, oci.MediaTypeIndex
	content, err := json.Marshal(e.index)
	if err != nil {
		return err
	}
	return e.writer.put(indexFile, int64(len(content)), bytes.NewReader(content))
}

func (e *exporter) item(ctx context.Context, c *imagecopy.Copier, repo registry.Puller, item Item) error {
	refs, all := []oci.Reference{item.Ref}, item.Ref == (oci.Reference{})
	if all {
		tags, _, err := repo.Tags(ctx, -1, "")
		if err != nil {
			return err
		}
		refs = nil
		for _, tag := range tags {
			refs = append(refs, oci.Reference{Tag: oci.Tag(tag)})
		}
	}
	for _, ref := range refs {
		m, err := repo.Manifest(ctx, ref)
		if all && oci.HasCode(err, oci.CodeManifestUnknown) {
			e.report.Note("%s:%s leads to a manifest that is not there", item.Name, ref)
			continue
		}
		if err == nil {
			err = e.root(ctx, c, Item{item.Name, ref}, m)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
	}
	return nil
}

// root writes what a tag or digest names and enters it into the index.
func (e *exporter) root(ctx context.Context, c *imagecopy.Copier, item Item, m *registry.Manifest) error {
	if _, err := c.Copy(ctx, &m.Descriptor, nil); err != nil {
		return err
	}
	entry := m.Descriptor
	entry.Annotations = map[string]string{}
	if item.Ref.Tag == "" {
		e.index.Manifests = append(e.index.Manifests, entry)
		return nil
	}
	e.report.Tags++
	entry.Annotations[refName] = string(item.Ref.Tag)
	if e.several {
		entry.Annotations[refName] = string(item.Name) + ":" + string(item.Ref.Tag)
	}
	e.index.Manifests = append(e.index.Manifests, entry)
	w, err := wrap(entry, m)
	if w != nil {
		e.wrapped = append(e.wrapped, w)
	}
	return err
}

// HasBlob implements [imagecopy.Target].
func (e *exporter) HasBlob(_ context.Context, d oci.Digest) (bool, error) { return e.written[d], nil }

// PutManifest implements [imagecopy.Target]. What has a subject gets an entry, as nothing else leads to it.
func (e *exporter) PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, _ []oci.Tag) error {
	if m.Subject != nil {
		entry := m.Descriptor(d, int64(len(body)))
		entry.Annotations = maps.Clone(entry.Annotations)
		delete(entry.Annotations, refName)
		delete(entry.Annotations, imageName)
		e.referrers = append(e.referrers, entry)
	}
	_, err := e.PutBlob(ctx, d, int64(len(body)), bytes.NewReader(body))
	return err
}

// PutBlob implements [imagecopy.Target].
func (e *exporter) PutBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (int64, error) {
	if e.written[d] {
		return size, nil
	}
	if err := e.writer.put(blobFile(d), size, &checked{ctx, content, d.Algorithm().New(), d}); err != nil {
		return 0, err
	}
	e.written[d] = true
	return size, nil
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
