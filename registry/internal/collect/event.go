package collect

import (
	"sync"

	"slipway/registry/internal/oci"
)

// Event is a step of a run, for people who watch it.
type Event struct {
	Kind       Kind
	Repository oci.Name
	Digest     oci.Digest
	Err        error
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
	Skipped                 // the repository, because of Err
	Marked                  // all repositories were read
	OldBlob                 // goes
)

// emit emits an event that belongs to no repository.
func (r *run) emit(e Event) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Tell(e)
}

// maxEvents bounds the events of a repository that wait.
const maxEvents = 4096

// events are those of a repository, which are emitted in one piece: they wait while
// another one's are emitted.
type events struct {
	r     *run
	mu    sync.Mutex
	later []Event
	now   bool // it holds r.telling
}

func (s *events) emit(e Event) {
	if s.r.Tell == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now {
		if len(s.later) < maxEvents && !s.r.telling.TryLock() {
			s.later = append(s.later, e)
			return
		} else if len(s.later) >= maxEvents {
			s.r.telling.Lock()
		}
		s.begin()
	}
	s.r.Tell(e)
}

// begin is called with r.telling held.
func (s *events) begin() {
	s.now = true
	for _, e := range s.later {
		s.r.Tell(e)
	}
	s.later = nil
}

// end emits what is left.
func (s *events) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now && len(s.later) > 0 {
		s.r.telling.Lock()
		s.begin()
	}
	if s.now {
		s.now = false
		s.r.telling.Unlock()
	}
}

// tellKept emits what of a repository is kept.
func (r *run) tellKept(repo *repository) {
	if r.Tell == nil {
		return
	}
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if !rev.live {
			continue
		}
		repo.events.emit(Event{Kind: Manifest, Repository: repo.name, Digest: r.digests.digest(rev.id)})
		refs, _ := r.graph.get(rev.id)
		for _, ref := range refs.needs {
			if _, also := repo.find(ref); !also {
				repo.events.emit(Event{Kind: Blob, Repository: repo.name, Digest: r.digests.digest(ref)})
			}
		}
	}
}

// linksGone counts and emits which links of a repository were deleted.
func (r *run) linksGone(repo *repository, part []garbage) {
	n := manifests(part)
	r.count(func(p *Report) {
		p.Manifests.Freed += int64(n)
		p.Manifests.Kept -= int64(n)
		p.LayerLinks += int64(len(part) - n)
	})
	for _, g := range part {
		kind := OldLayer
		if g.revision {
			kind = OldManifest
		}
		repo.events.emit(Event{Kind: kind, Repository: repo.name, Digest: g.digest})
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
