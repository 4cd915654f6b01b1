// Package imagecopy copies images with all that they refer to and all that refers to them.
package imagecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"slipway/registry/internal/oci"
)

// Report counts the content that was copied.
type Report struct {
	Tags      int      `json:"tags"`
	Manifests int      `json:"manifests"`
	Blobs     int      `json:"blobs"`
	Bytes     int64    `json:"bytes"`           // of the blobs
	Notes     []string `json:"notes,omitempty"` // what was left out, by right
}

// Note adds a note.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Source is a repository or a layout that is read. An error for content that it lacks is one of
// fs.ErrNotExist, or an *oci.Error with the code of something unknown.
type Source interface {
	Manifest(ctx context.Context, d oci.Digest) ([]byte, error)
	Blob(ctx context.Context, d oci.Digest) (content io.ReadCloser, size int64, err error) // size is -1 if unknown
	Referrers(ctx context.Context, subject oci.Digest) ([]oci.Descriptor, error)
}

// Target is a repository or a layout that is written. It refuses bytes of another digest.
type Target interface {
	HasBlob(ctx context.Context, d oci.Digest) (bool, error)
	PutBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (n int64, err error)
	PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error
}

// Comparer is a [Target] that knows what it has: manifests that it has aren't put again.
type Comparer interface {
	// HasManifest reports whether the target has the manifest, and lists it if it is a referrer.
	HasManifest(ctx context.Context, d oci.Digest, m *oci.Manifest) (bool, error)
}

// absent reports whether err means that a source lacks the content.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || oci.IsUnknown(err) }

// maxDepth bounds the nesting of indexes.
const maxDepth = 32

// Copier copies manifests with all that they refer to, and what refers to them in the source.
type Copier struct {
	from     Source
	to       Target
	comparer Comparer // nil = everything is put
	sparse   bool     // what the source lacks is left to the target
	report   *Report
	copied   map[oci.Digest]bool // manifests
	subjects []oci.Digest        // of them, whose referrers are still to be copied
}

// New returns a Copier that counts in report. With sparse, blobs that the source lacks are left to the target.
func New(from Source, to Target, sparse bool, report *Report) *Copier {
	comparer, _ := to.(Comparer)
	return &Copier{from: from, to: to, comparer: comparer, sparse: sparse, report: report, copied: map[oci.Digest]bool{}}
}

// Copy copies a manifest and gives it the tags. found is false if the source lacks it. If the target has it, what is new among the
// referrers of the manifest and of its parts is copied.
func (c *Copier) Copy(ctx context.Context, d *oci.Descriptor, tags []oci.Tag) (found bool, err error) {
	c.subjects = nil
	found, err = c.manifest(ctx, d, tags, 0)
	for len(c.subjects) > 0 && err == nil { // referrers may refer to each other to any depth
		subject := c.subjects[0]
		c.subjects = c.subjects[1:]
		err = c.referrers(ctx, subject)
	}
	return found, err
}

// manifest copies a manifest that depth indexes contain.
func (c *Copier) manifest(ctx context.Context, d *oci.Descriptor, tags []oci.Tag, depth int) (found bool, err error) {
	if c.copied[d.Digest] && len(tags) == 0 {
		return true, nil
	}
	if depth > maxDepth {
		return false, fmt.Errorf("%s: indexes lie in each other more than %d deep", d.Digest, maxDepth)
	}
	body, err := c.from.Manifest(ctx, d.Digest)
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
	has := false
	if c.comparer != nil {
		if has, err = c.comparer.HasManifest(ctx, d.Digest, m); err != nil {
			return true, fmt.Errorf("%s: %w", d.Digest, err)
		}
	}
	if err := c.references(ctx, d.Digest, m, has, depth); err != nil {
		return true, err
	}
	if !has || len(tags) > 0 {
		if err := c.to.PutManifest(ctx, d.Digest, m, body, tags); err != nil {
			return true, fmt.Errorf("%s: %w", d.Digest, err)
		}
	}
	if !c.copied[d.Digest] && !has {
		c.report.Manifests++
	}
	c.copied[d.Digest] = true
	c.report.Tags += len(tags)
	c.subjects = append(c.subjects, d.Digest)
	return true, nil
}

// references copies what a manifest refers to, without its subject. Only the layers and the
// config need be there: an index may list platforms that nobody has copied.
func (c *Copier) references(ctx context.Context, by oci.Digest, m *oci.Manifest, has bool, depth int) error {
	all := slices.Concat(m.Layers, m.Manifests)
	if has { // of which only the manifests may have new referrers
		all = m.Manifests
	} else if m.Config != nil {
		all = slices.Insert(all, 0, *m.Config)
	}
	for i := range all {
		d, listed := &all[i], i >= len(all)-len(m.Manifests)
		found, err := c.reference(ctx, d, listed, has, depth)
		switch {
		case err != nil:
			return err
		case found || has || c.sparse:
		case listed, oci.IsManifest(d.MediaType), oci.NonDistributable(d.MediaType) && len(d.URLs) > 0:
			c.report.Note("%s refers to %s, which is not there", by, d.Digest)
		default:
			return fmt.Errorf("%s: its blob %s is not there", by, d.Digest)
		}
	}
	return nil
}

// reference copies a manifest or a blob. An index may list blobs, as the caches of BuildKit do,
// and manifests of types that are none any more.
func (c *Copier) reference(ctx context.Context, d *oci.Descriptor, listed, has bool, depth int) (found bool, err error) {
	if !oci.IsManifest(d.MediaType) && (d.MediaType != "" || !listed) {
		if has {
			return true, nil
		}
		found, err = c.blob(ctx, d.Digest)
		if found || err != nil || !listed {
			return found, err
		}
	}
	return c.manifest(ctx, d, nil, depth+1) // a target that has an index may lack what it lists: the registry may have got that later
}

func (c *Copier) blob(ctx context.Context, d oci.Digest) (found bool, err error) {
	if found, err = c.to.HasBlob(ctx, d); found || err != nil {
		return found, err
	}
	content, size, err := c.from.Blob(ctx, d)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", d, err)
	}
	defer content.Close() //nolint:errcheck // it is only read
	n, err := c.to.PutBlob(ctx, d, size, content)
	if err != nil {
		return true, fmt.Errorf("%s: %w", d, err)
	}
	c.report.Blobs++
	c.report.Bytes += n
	return true, nil
}

func (c *Copier) referrers(ctx context.Context, subject oci.Digest) error {
	list, err := c.from.Referrers(ctx, subject)
	if err != nil {
		return err
	}
	for i := range list {
		if found, err := c.manifest(ctx, &list[i], nil, 0); err != nil {
			return err
		} else if !found {
			c.report.Note("%s, which refers to %s, is not there", list[i].Digest, subject)
		}
	}
	return nil
}
