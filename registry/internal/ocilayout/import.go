package ocilayout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway/registry/internal/imagecopy"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

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

	MaxManifest int64 // bytes; 0 = registry.DefaultMaxManifestSize

	// Spread returns where the images of a repository in the layout go; nil = all go into one.
	Spread func(repository string) (registry.Repository, error)
}

// Import puts all that is in the layout at path into the repository, as pushes
// would. The tags are the names of the entries; of "repository:tag" it is what
// comes last. ErrSeveral, ErrUntagged, ErrNotLayout.
func Import(ctx context.Context, path string, repo registry.Repository, o ImportOptions) (report imagecopy.Report, err error) {
	r, err := open(path, cmp.Or(o.MaxManifest, registry.DefaultMaxManifestSize))
	if err != nil {
		return report, err
	}
	defer r.Close()
	entries, err := r.entries()
	var parts []part
	if err == nil {
		parts, err = split(entries, repo, o, &report)
	}
	for i := range parts {
		if err == nil && o.Tag != "" {
			parts[i].tags, err = only(ctx, r, entries, o.Tag)
		} else if err == nil {
			parts[i].tags, err = tagsOf(parts[i].entries, &report)
		}
	}
	tagged := slices.ContainsFunc(parts, func(p part) bool { return len(p.tags) > 0 })
	if err == nil && !tagged && len(entries) > 0 && !o.Untagged {
		err = ErrUntagged
		if len(report.Notes) > 0 {
			err = fmt.Errorf("%w (%s)", err, strings.Join(report.Notes, "; "))
		}
	}
	if err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	for i := range parts {
		if err := parts[i].copy(ctx, r, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// part of a layout is for one repository.
type part struct {
	repo    registry.Repository
	entries []oci.Descriptor
	tags    map[oci.Digest][]oci.Tag
}

// split returns the parts of a layout. An entry that names no repository, such as a signature,
// is left out where each repository in the layout gets one of its own.
func split(entries []oci.Descriptor, repo registry.Repository, o ImportOptions, report *imagecopy.Report) (parts []part, err error) {
	byName, names := map[string][]oci.Descriptor{}, []string{}
	for _, d := range entries {
		name := repositoryIn(&d)
		if name != "" && byName[name] == nil {
			names = append(names, name)
		} else if name == "" && o.Spread != nil {
			report.Note("%s names no repository", d.Digest)
		}
		byName[name] = append(byName[name], d)
	}
	slices.Sort(names)
	switch {
	case o.Spread == nil && len(names) > 1 && !o.Merge:
		return nil, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(names, ", "))
	case o.Spread == nil:
		return []part{{repo: repo, entries: entries}}, nil
	}
	for _, name := range names {
		repo, err := o.Spread(name)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{repo: repo, entries: byName[name]})
	}
	return parts, nil
}

// copy pushes the part. What the layout lacks is missed by the repository, if it need be.
func (p *part) copy(ctx context.Context, from imagecopy.Source, report *imagecopy.Report) error {
	c := imagecopy.New(from, pushed{p.repo}, true, report)
	for i := range p.entries {
		d := &p.entries[i]
		found, err := c.Copy(ctx, d, p.tags[d.Digest])
		if err == nil && !found {
			err = fmt.Errorf("the layout lacks %s, which its index lists", d.Digest)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.repo.Name(), err)
		}
		delete(p.tags, d.Digest)
	}
	return nil
}

// only gives the tag to the only image among the entries. What refers to another manifest, such
// as a signature, is none.
func only(ctx context.Context, r *reader, entries []oci.Descriptor, tag oci.Tag) (map[oci.Digest][]oci.Tag, error) {
	tags := map[oci.Digest][]oci.Tag{}
	for _, d := range entries {
		body, err := r.Manifest(ctx, d.Digest)
		if err != nil {
			return nil, err
		}
		m, err := oci.ReadManifest(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Digest, err)
		}
		if m.Subject == nil {
			tags[d.Digest] = []oci.Tag{tag}
		}
	}
	if len(tags) != 1 {
		return nil, fmt.Errorf("it holds %d images, and the tag %s is for one", len(tags), tag)
	}
	return tags, nil
}

// tagsOf returns the tags that each manifest gets. Two manifests of one tag are an
// error: it is ambiguous which was meant.
func tagsOf(entries []oci.Descriptor, report *imagecopy.Report) (map[oci.Digest][]oci.Tag, error) {
	byTag, byDigest := map[oci.Tag]oci.Digest{}, map[oci.Digest][]oci.Tag{}
	for _, d := range entries {
		name := d.Annotations[refName]
		if name == "" {
			name = d.Annotations[imageName]
		}
		if name == "" {
			continue
		}
		tag, err := tagIn(name)
		if err != nil {
			report.Note("%s has the name %q, which is not a tag", d.Digest, name)
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

// tagIn returns the tag in the name of an entry: what follows its last colon, or all of
// it. What follows an @ is a digest, which names no tag.
func tagIn(name string) (oci.Tag, error) {
	bare, _, pinned := strings.Cut(name, "@")
	colon := strings.LastIndexByte(bare, ':')
	if pinned && colon < 0 {
		return oci.ParseTag(name)
	}
	return oci.ParseTag(bare[colon+1:])
}
