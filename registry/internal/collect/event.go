package collect

import "slipway/registry/internal/oci"

// Event is a step of a run, for people who watch it.
type Event struct {
	Kind       Kind
	Repository oci.Name
	Digest     oci.Digest
	Report     *Report // of Marked: what is known so far
	Marked     int64   // of Marked: digests
}

// Kind says what happened.
type Kind int

// The kinds, in the order in which they come.
const (
	Repository  Kind = iota // begins
	Manifest                // is kept
	Blob                    // is needed by a manifest that is kept
	OldManifest             // goes
	OldLayer                // a repository's link to a blob goes
	Marked                  // all repositories were read
	OldBlob                 // goes
)

// emit emits an event.
func (r *run) emit(e Event) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Tell(e)
}

// tellKept emits what of a repository is kept.
func (r *run) tellKept(repo *repository) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Tell(Event{Kind: Repository, Repository: repo.name})
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if !rev.live {
			continue
		}
		r.Tell(Event{Kind: Manifest, Repository: repo.name, Digest: r.digests.digest(rev.id)})
		refs, _ := r.graph.get(rev.id)
		for _, ref := range refs.needs {
			if _, also := repo.find(ref); !also {
				r.Tell(Event{Kind: Blob, Repository: repo.name, Digest: r.digests.digest(ref)})
			}
		}
	}
}

// tellGone emits which links of a repository were deleted.
func (r *run) tellGone(p part) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	for _, g := range p.links {
		switch g.kind {
		case revisionLink:
			r.Tell(Event{Kind: OldManifest, Repository: p.repo.name, Digest: g.digest})
		case layerLink:
			r.Tell(Event{Kind: OldLayer, Repository: p.repo.name, Digest: g.digest})
		case historyLink:
		}
	}
}

// tellMarked emits that everything was read.
func (r *run) tellMarked() {
	if r.Tell == nil {
		return
	}
	r.mu.Lock()
	report := r.report
	r.mu.Unlock()
	r.emit(Event{Kind: Marked, Report: &report, Marked: r.digests.marked()})
}
