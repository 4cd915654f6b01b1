package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

var algorithms = []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512}

// maxManifest is more than any registry takes.
const maxManifest = 64 << 20

// references is what a manifest needs: a piece of run.arena, and the subject,
// if it has one, behind it.
type references struct {
	start, end uint32
	subject    bool
}

func (r *run) needs(m references) []id { return r.arena[m.start:m.end] }

// revision is a manifest in a repository.
type revision struct {
	digest  oci.Digest
	id      id
	changed time.Time // of its link
	aside   bool
	live    bool
}

// repository is what a look at one has found. Maps go by number.
type repository struct {
	name      oci.Name
	revisions []revision
	index     map[id]int // into revisions
	referrers map[id][]int
	troubled  bool // it is left alone
}

// eachRepository calls f for every directory that may be a repository, those
// below it first, so that f may remove it. A directory that cannot be listed
// ends the run: who knows what it needs.
func (r *run) eachRepository(ctx context.Context, f func(context.Context, oci.Name) error) error {
	err := r.walk(ctx, "", f)
	if absent(err) {
		return nil
	}
	return err
}

func (r *run) walk(ctx context.Context, name string, f func(context.Context, oci.Name) error) error {
	dir := layout.Repositories
	if name != "" {
		dir = layout.Repository(oci.Name(name))
	}
	private := false
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) && name != "" {
			return nil
		}
		if err != nil {
			return err
		}
		if !e.Dir {
			continue
		}
		if layout.Private(e.Name) {
			private = true
			continue
		}
		child := strings.TrimPrefix(name+"/"+e.Name, "/")
		if _, err := oci.ParseName(child); err != nil {
			continue // no request can name it
		}
		if err := r.walk(ctx, child, f); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil || name == "" {
		return err
	}
	if private {
		r.serial++
		if err := f(ctx, oci.Name(name)); err != nil {
			return err
		}
	}
	return r.tidy(ctx, dir)
}

// tidy removes a directory if it is empty.
func (r *run) tidy(ctx context.Context, dirs ...string) error {
	if r.DryRun {
		return nil
	}
	for _, dir := range dirs {
		if err := r.Driver.Prune(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// read finds the manifests of a repository and what they need.
func (r *run) read(ctx context.Context, name oci.Name) (*repository, error) {
	repo := &repository{name: name, index: map[id]int{}, referrers: map[id][]int{}}
	for _, alg := range algorithms {
		if err := r.listRevisions(ctx, repo, alg); err != nil {
			return nil, err
		}
	}
	for i := range repo.revisions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rev := &repo.revisions[i]
		m, err := r.manifest(ctx, rev)
		if err != nil {
			r.trouble(repo, rev.digest, err)
			continue
		}
		if m.subject {
			subject := r.arena[m.end]
			repo.referrers[subject] = append(repo.referrers[subject], i)
		}
	}
	return repo, nil
}

func (r *run) listRevisions(ctx context.Context, repo *repository, alg oci.Algorithm) error {
	dir := layout.Revisions(repo.name, alg)
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := oci.ParseDigest(string(alg) + ":" + e.Name)
		if err != nil || !e.Dir {
			continue
		}
		info, err := r.Driver.Stat(ctx, layout.RevisionLink(repo.name, d))
		if absent(err) {
			if err := r.tidy(ctx, dir+"/"+e.Name); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r.addRevision(repo, revision{digest: d, changed: info.Changed})
	}
	return r.tidy(ctx, dir)
}

func (r *run) addRevision(repo *repository, rev revision) {
	rev.id = r.digests.add(rev.digest)
	repo.index[rev.id] = len(repo.revisions)
	repo.revisions = append(repo.revisions, rev)
}

// trouble notes that the repository cannot be understood and is left alone.
func (r *run) trouble(repo *repository, d oci.Digest, err error) {
	for _, p := range r.report.Problems {
		if p.Repository == repo.name && p.Manifest == d {
			repo.troubled = true
			return
		}
	}
	repo.troubled = true
	r.report.Problems = append(r.report.Problems, Problem{repo.name, d, err.Error()})
	r.tell(Event{Kind: LeftAlone, Repository: repo.name, Digest: d, Err: err})
}

// manifest reads what a manifest needs. Its digest fixes that, so it is read
// once in a run.
func (r *run) manifest(ctx context.Context, rev *revision) (references, error) {
	if m, ok := r.manifests[rev.id]; ok {
		return m, nil
	}
	body, err := r.bytes(ctx, rev.digest)
	if err != nil {
		return references{}, err
	}
	refs, err := oci.ReadReferences(body)
	if err != nil {
		return references{}, err
	}
	m := references{start: uint32(len(r.arena)), subject: refs.Subject != ""}
	for _, list := range [][]oci.Digest{refs.Needed, refs.Elsewhere} {
		for _, d := range list {
			r.arena = append(r.arena, r.digests.add(d))
		}
	}
	m.end = uint32(len(r.arena))
	if m.subject {
		r.arena = append(r.arena, r.digests.add(refs.Subject))
	}
	r.manifests[rev.id] = m
	return m, nil
}

// bytes reads a manifest, wherever it is, and proves it.
func (r *run) bytes(ctx context.Context, d oci.Digest) ([]byte, error) {
	place := layout.BlobData(d)
	body, err := r.Driver.ReadFile(ctx, place, maxManifest)
	for _, path := range []string{layout.Aside(place), place} {
		if absent(err) {
			body, err = r.Driver.ReadFile(ctx, path, maxManifest)
		}
	}
	if absent(err) {
		return nil, errors.New("its bytes are missing")
	}
	if err != nil {
		return nil, err
	}
	if d.Algorithm().FromBytes(body) != d {
		return nil, errors.New("its bytes are damaged")
	}
	return body, nil
}

// link reads a link file. Errors are those of the driver and of
// layout.ParseLink.
func (r *run) link(ctx context.Context, path string) (oci.Digest, error) {
	b, err := r.Driver.ReadFile(ctx, path, layout.MaxLink)
	if errors.Is(err, driver.ErrTooLarge) {
		return "", layout.ErrBadLink
	}
	if err != nil {
		return "", err
	}
	return layout.ParseLink(b)
}

// spread marks as live what the live manifests lead to: what they need, their
// subjects, and the manifests whose subject they are.
func (r *run) spread(repo *repository) {
	var todo []int
	for i := range repo.revisions {
		if repo.revisions[i].live {
			todo = append(todo, i)
		}
	}
	reach := func(i int) {
		if !repo.revisions[i].live {
			repo.revisions[i].live = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		rev := &repo.revisions[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		for _, i := range repo.referrers[rev.id] {
			reach(i)
		}
		m, ok := r.manifests[rev.id]
		if !ok {
			continue
		}
		refs := r.needs(m)
		if m.subject {
			refs = r.arena[m.start : m.end+1]
		}
		for _, ref := range refs {
			if i, ok := repo.index[ref]; ok {
				reach(i)
			}
		}
	}
}

// need notes that the live manifests of the repository, and all that they need,
// stay.
func (r *run) need(repo *repository, why uint8) {
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if !rev.live {
			continue
		}
		r.note(rev.id, why)
		for _, ref := range r.needs(r.manifests[rev.id]) {
			r.note(ref, why)
		}
	}
}

func (r *run) note(i id, why uint8) {
	n := r.digests.note(i)
	n.what |= why
	n.repository = r.serial
}

// neededHere says whether a manifest of the repository at hand needs it.
func (r *run) neededHere(i id) bool { return r.digests.note(i).repository == r.serial }

func describe(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
