package ocilayout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"slipway/registry/internal/oci"
)

// Report counts the content that was exported or imported.
type Report struct {
	Tags      int      `json:"tags"`
	Manifests int      `json:"manifests"`
	Blobs     int      `json:"blobs"`
	Bytes     int64    `json:"bytes"`           // of the blobs
	Notes     []string `json:"notes,omitempty"` // what was left out, by right
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// source is a repository or a layout that is read. An error for content that it lacks is absent.
type source interface {
	manifest(ctx context.Context, d oci.Digest) ([]byte, error)
	blob(ctx context.Context, d oci.Digest) (content io.ReadCloser, size int64, err error) // size is -1 if unknown
	referrers(ctx context.Context, subject oci.Digest) ([]oci.Descriptor, error)
}

// target is a repository or a layout that is written. It refuses bytes of another digest.
type target interface {
	hasBlob(ctx context.Context, d oci.Digest) (bool, error)
	putBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (n int64, err error)
	putManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error
}

// absent reports whether err means that a source lacks the content.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || oci.IsUnknown(err) }

// maxDepth bounds the nesting of indexes.
const maxDepth = 32

// copier copies manifests with all that they refer to, and what refers to them in the source.
type copier struct {
	from   source
	to     target
	sparse bool // what the source lacks is left to the target
	report *Report
	copied map[oci.Digest]bool // manifests
}

// manifest copies a manifest and gives it the tags. found is false if the source lacks it.
func (c *copier) manifest(ctx context.Context, d *oci.Descriptor, tags []oci.Tag, depth int) (found bool, err error) {
	if c.copied[d.Digest] && len(tags) == 0 {
		return true, nil
	}
	if depth > maxDepth {
		return false, fmt.Errorf("%s: indexes lie in each other more than %d deep", d.Digest, maxDepth)
	}
	body, err := c.from.manifest(ctx, d.Digest)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m, err := oci.ReadManifest(body)
	if err != nil {
		return true, fmt.Errorf("%s: %w", d.Digest, err)
	}
	if d.MediaType != "" {
		m.MediaType = d.MediaType
	}
	if err := c.references(ctx, d.Digest, m, depth); err != nil {
		return true, err
	}
	if err := c.to.putManifest(ctx, d.Digest, m, body, tags); err != nil {
		return true, fmt.Errorf("%s: %w", d.Digest, err)
	}
	if !c.copied[d.Digest] {
		c.report.Manifests++
	}
	c.copied[d.Digest] = true
	c.report.Tags += len(tags)
	return true, c.referrers(ctx, d.Digest)
}

// references copies what a manifest refers to, without its subject. Only the layers and the
// config need be there: an index may list platforms that nobody has copied.
func (c *copier) references(ctx context.Context, by oci.Digest, m *oci.Manifest, depth int) error {
	all := slices.Concat(m.Layers, m.Manifests)
	if m.Config != nil {
		all = slices.Insert(all, 0, *m.Config)
	}
	for i := range all {
		d, listed := &all[i], i >= len(all)-len(m.Manifests)
		if _, err := oci.ParseDigest(string(d.Digest)); err != nil { // distribution stores it without looking at it
			c.report.note("%s refers to %.80q, which is no digest", by, d.Digest)
			continue
		}
		found, err := c.reference(ctx, d, listed, depth)
		switch {
		case err != nil:
			return err
		case found || c.sparse:
		case listed, oci.IsManifest(d.MediaType), oci.NonDistributable(d.MediaType) && len(d.URLs) > 0:
			c.report.note("%s refers to %s, which is not there", by, d.Digest)
		default:
			return fmt.Errorf("%s: its blob %s is not there", by, d.Digest)
		}
	}
	return nil
}

// reference copies a manifest or a blob. An index may list blobs, as the caches of BuildKit do,
// and manifests of types that are none any more.
func (c *copier) reference(ctx context.Context, d *oci.Descriptor, listed bool, depth int) (found bool, err error) {
	if !oci.IsManifest(d.MediaType) && (d.MediaType != "" || !listed) {
		found, err = c.blob(ctx, d.Digest)
		if found || err != nil || !listed {
			return found, err
		}
	}
	return c.manifest(ctx, d, nil, depth+1)
}

func (c *copier) blob(ctx context.Context, d oci.Digest) (found bool, err error) {
	if found, err = c.to.hasBlob(ctx, d); found || err != nil {
		return found, err
	}
	content, size, err := c.from.blob(ctx, d)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", d, err)
	}
	defer content.Close() //nolint:errcheck // it is only read
	n, err := c.to.putBlob(ctx, d, size, content)
	if err != nil {
		return true, fmt.Errorf("%s: %w", d, err)
	}
	c.report.Blobs++
	c.report.Bytes += n
	return true, nil
}

func (c *copier) referrers(ctx context.Context, subject oci.Digest) error {
	list, err := c.from.referrers(ctx, subject)
	if err != nil {
		return err
	}
	for i := range list {
		if found, err := c.manifest(ctx, &list[i], nil, 0); err != nil {
			return err
		} else if !found {
			c.report.note("%s, which refers to %s, is not there", list[i].Digest, subject)
		}
	}
	return nil
}
