package collect

import "slipway/registry/internal/oci"

// Event is a step of a run, for people who watch it.
type Event struct {
	Kind       Kind
	Repository oci.Name
	Digest     oci.Digest
	Marked     int64 // of Marked: digests
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
	OldTag                  // an entry of a tag's history, which leads to a manifest that is gone, goes
	Marked                  // all repositories were read
	OldBlob                 // goes
)

// emit lets f emit events in one piece.
func (r *run) emit(f func(tell func(Event))) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	f(r.Tell)
}

// tellKept emits what of a repository is kept.
func (r *run) tellKept(repo *repository) {
	r.emit(func(tell func(Event)) {
		tell(Event{Kind: Repository, Repository: repo.name})
		for rev, needs := range r.kept(repo) {
			tell(Event{Kind: Manifest, Repository: repo.name, Digest: r.digests.digest(rev.id)})
			for _, ref := range needs {
				if _, also := find(repo.revisions, ref); !also {
					tell(Event{Kind: Blob, Repository: repo.name, Digest: r.digests.digest(ref)})
				}
			}
		}
	})
}

// tellMarked emits that everything was read.
func (r *run) tellMarked() {
	r.emit(func(tell func(Event)) { tell(Event{Kind: Marked, Marked: r.digests.marked()}) })
}

// tellGone counts and emits what of a part is deleted.
func (r *run) tellGone(p *part) {
	r.count(func(report *Report) {
		for _, g := range p.gone {
			report.free(g)
		}
	})
	r.emit(func(tell func(Event)) {
		var name oci.Name
		if p.repo != nil {
			name = p.repo.name
		}
		for _, g := range p.gone {
			tell(Event{Kind: g.kind, Repository: name, Digest: r.digests.digest(g.id)})
		}
	})
}
