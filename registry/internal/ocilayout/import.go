package ocilayout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// maxDepth bounds the nesting of indexes.
const maxDepth = 32

// ErrSeveral is inside the error for a layout of several repositories that nobody
// asked to merge.
var ErrSeveral = errors.New("the layout holds several repositories")

// ErrUntagged is inside the error for a layout that gives no tag to anything.
var ErrUntagged = errors.New("the layout names no tag")

// ImportOptions describes how to import.
type ImportOptions struct {
	Merge    bool    // take a layout of several repositories into one
	Tag      oci.Tag // of the only image of the layout; "" = what the entries are called
	Untagged bool    // take a layout that names no tag
	// Spread returns where the images of a repository in the layout go; nil = all go into one.
	Spread func(repository string) (registry.Repository, error)
}

// Import puts all that is in the layout at path into the repository, as pushes
// would. The tags are the names of the entries; of "repository:tag" it is what
// comes last. ErrSeveral, ErrUntagged, ErrNotLayout.
func Import(ctx context.Context, path string, repo registry.Repository, o ImportOptions) (Report, error) {
	s, err := open(path)
	if err != nil {
		return Report{}, err
	}
	defer s.Close()
	x, err := readIndex(s)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	if o.Spread != nil {
		return spread(ctx, s, x, o)
	}
	if names := x.repositories(); len(names) > 1 && !o.Merge {
		return Report{}, fmt.Errorf("%s: %w: %s", path, ErrSeveral, strings.Join(names, ", "))
	}
	i := &importer{ctx: ctx, source: s, repo: repo, done: map[oci.Digest]bool{}}
	tags, err := i.tags(x)
	if err == nil && o.Tag != "" {
		tags, err = i.only(x, o.Tag)
	}
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(tags) == 0 && len(x.Manifests) > 0 && !o.Untagged {
		return Report{}, fmt.Errorf("%s: %w%s", path, ErrUntagged, i.left())
	}
	err = i.all(x, tags)
	return i.report, err
}

// spread imports the images of each repository into one of its own. An entry that names no
// repository, such as a signature, is left out.
func spread(ctx context.Context, s source, x *index, o ImportOptions) (sum Report, err error) {
	for _, name := range x.repositories() {
		part := &index{}
		for _, d := range x.Manifests {
			if repositoryIn(&d) == name {
				part.Manifests = append(part.Manifests, d)
			}
		}
		repo, err := o.Spread(name)
		if err != nil {
			return sum, err
		}
		i := &importer{ctx: ctx, source: s, repo: repo, done: map[oci.Digest]bool{}}
		tags, err := i.tags(part)
		if err == nil {
			err = i.all(part, tags)
		}
		sum.add(&i.report)
		if err != nil {
			return sum, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, d := range x.Manifests {
		if repositoryIn(&d) == "" {
			sum.Notes = append(sum.Notes, string(d.Digest)+" names no repository")
		}
	}
	if sum.Tags == 0 && !o.Untagged {
		return sum, ErrUntagged
	}
	return sum, nil
}

func (r *Report) add(o *Report) {
	r.Tags, r.Manifests, r.Blobs, r.Bytes = r.Tags+o.Tags, r.Manifests+o.Manifests, r.Blobs+o.Blobs, r.Bytes+o.Bytes
	r.Notes = append(r.Notes, o.Notes...)
}

// all imports the entries with their tags.
func (i *importer) all(x *index, tags map[oci.Digest][]oci.Tag) error {
	for n := range x.Manifests {
		d := &x.Manifests[n]
		if err := i.manifest(d, tags[d.Digest], 0); err != nil {
			return err
		}
		delete(tags, d.Digest)
	}
	return nil
}

// only gives the tag to the only image among the entries. What refers to another manifest, such
// as a signature, is none.
func (i *importer) only(x *index, tag oci.Tag) (map[oci.Digest][]oci.Tag, error) {
	tags := map[oci.Digest][]oci.Tag{}
	for _, d := range x.Manifests {
		body, err := readManifest(i.source, d.Digest)
		if err != nil {
			return nil, err
		}
		parsed, err := oci.ReadManifest(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Digest, err)
		}
		if parsed.Subject == nil {
			tags[d.Digest] = []oci.Tag{tag}
		}
	}
	if len(tags) != 1 {
		return nil, fmt.Errorf("it holds %d images, and the tag %s is for one", len(tags), tag)
	}
	i.report.Notes = nil // the names don't matter
	return tags, nil
}

// left returns the names that are no tags in parentheses, "" for none.
func (i *importer) left() string {
	if len(i.report.Notes) == 0 {
		return ""
	}
	return " (" + strings.Join(i.report.Notes, "; ") + ")"
}

func readIndex(s source) (*index, error) {
	if _, err := read(s, versionFile); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLayout, err)
	}
	content, err := read(s, indexFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLayout, err)
	}
	var x index
	if err := json.Unmarshal(content, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotLayout, indexFile, err)
	}
	x.Manifests = slices.DeleteFunc(x.Manifests, func(d oci.Descriptor) bool { return d.Annotations[wraps] != "" })
	return &x, nil
}

// repositoryIn returns the repository in the name of an entry, "" for none. The name that
// containerd and docker keep has it where that of the specification is only a tag.
func repositoryIn(d *oci.Descriptor) string {
	for _, annotation := range []string{refName, imageName} {
		bare, _, _ := strings.Cut(d.Annotations[annotation], "@")
		if colon := strings.LastIndexByte(bare, ':'); colon > 0 {
			return bare[:colon]
		}
	}
	return ""
}

// name returns the name of an entry, "" if it has none.
func name(d *oci.Descriptor) string {
	if n := d.Annotations[refName]; n != "" {
		return n
	}
	return d.Annotations[imageName]
}

// repositories are those that the names of the entries hold, sorted.
func (x *index) repositories() []string {
	var names []string
	for i := range x.Manifests {
		if repository := repositoryIn(&x.Manifests[i]); repository != "" {
			names = append(names, repository)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

type importer struct {
	ctx    context.Context
	source source
	repo   registry.Repository
	done   map[oci.Digest]bool
	report Report
}

// tags is the tags that each manifest gets. Two manifests of one tag are an
// error: it is ambiguous which was meant.
func (i *importer) tags(x *index) (map[oci.Digest][]oci.Tag, error) {
	byTag, byDigest := map[oci.Tag]oci.Digest{}, map[oci.Digest][]oci.Tag{}
	for _, d := range x.Manifests {
		called := name(&d)
		if called == "" {
			continue
		}
		tag, err := tagIn(called)
		if err != nil {
			i.report.Notes = append(i.report.Notes, fmt.Sprintf("%s has the name %q, which is not a tag", d.Digest, called))
			continue
		}
		if other, ok := byTag[tag]; ok && other != d.Digest {
			return nil, fmt.Errorf("the layout has two manifests for the tag %s: %s and %s", tag, other, d.Digest)
		}
		byTag[tag] = d.Digest
		if !slices.Contains(byDigest[d.Digest], tag) {
			byDigest[d.Digest] = append(byDigest[d.Digest], tag)
		}
	}
	return byDigest, nil
}

// tagIn is the tag in the name of an entry: what follows its last colon, or all of
// it. What follows an @ is a digest, which names no tag.
func tagIn(name string) (oci.Tag, error) {
	bare, _, pinned := strings.Cut(name, "@")
	colon := strings.LastIndexByte(bare, ':')
	if pinned && colon < 0 {
		return oci.ParseTag(name)
	}
	return oci.ParseTag(bare[colon+1:])
}

// manifest pushes what the manifest refers to, then the manifest, then its tags.
func (i *importer) manifest(d *oci.Descriptor, tags []oci.Tag, depth int) error {
	if i.done[d.Digest] && len(tags) == 0 {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("%s: indexes lie in each other more than %d deep", d.Digest, maxDepth)
	}
	if err := i.ctx.Err(); err != nil {
		return err
	}
	body, err := readManifest(i.source, d.Digest)
	if err != nil {
		return err
	}
	parsed, err := oci.ReadManifest(body)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	if err := i.references(parsed, depth); err != nil {
		return err
	}
	mediaType := d.MediaType
	if mediaType == "" {
		mediaType = parsed.MediaType
	}
	if _, err := i.repo.PutManifest(i.ctx, oci.Reference{Digest: d.Digest}, mediaType, body, tags); err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	if !i.done[d.Digest] {
		i.done[d.Digest] = true
		i.report.Manifests++
	}
	i.report.Tags += len(tags)
	return nil
}

func (i *importer) references(m *oci.Manifest, depth int) error {
	if m.Config != nil {
		if err := i.blob(m.Config); err != nil {
			return err
		}
	}
	for n := range m.Layers {
		d := &m.Layers[n]
		push := i.blob
		if oci.IsManifest(d.MediaType) {
			push = func(d *oci.Descriptor) error { return i.child(d, depth) }
		}
		if err := push(d); err != nil {
			return err
		}
	}
	for n := range m.Manifests {
		if err := i.child(&m.Manifests[n], depth); err != nil {
			return err
		}
	}
	return nil
}

// child pushes what an index lists: a manifest, or a blob, as the caches of
// BuildKit do. A layout may hold a part of it; whether that will do the repository
// decides.
func (i *importer) child(d *oci.Descriptor, depth int) error {
	if d.MediaType != "" && !oci.IsManifest(d.MediaType) {
		return i.blob(d)
	}
	err := i.manifest(d, nil, depth+1)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// blob pushes a blob that the repository has not. One that the layout has not is
// missed by the manifest, if it need be.
func (i *importer) blob(d *oci.Descriptor) (err error) {
	if _, err := oci.ParseDigest(string(d.Digest)); err != nil || i.done[d.Digest] {
		return err
	}
	if _, err := i.repo.StatBlob(i.ctx, d.Digest); !oci.HasCode(err, oci.CodeBlobUnknown) {
		return err
	}
	f, err := i.source.open(blobFile(d.Digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	u, err := i.repo.StartUpload(i.ctx, d.Digest.Algorithm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	n, err := u.Append(i.ctx, f, -1)
	if err == nil {
		_, err = u.Commit(i.ctx, d.Digest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Digest, errors.Join(err, u.Cancel(context.WithoutCancel(i.ctx))))
	}
	i.done[d.Digest] = true
	i.report.Blobs++
	i.report.Bytes += n
	return nil
}
