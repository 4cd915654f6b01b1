package collect

import "sync"

// tell tells an event that belongs to no repository.
func (r *run) tell(e Event) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Tell(e)
}

// maxStory bounds the events of a repository that wait.
const maxStory = 4096

// story is what there is to tell of a repository, so that it is told in one
// piece: while another one is told, its events wait.
type story struct {
	r     *run
	mu    sync.Mutex
	later []Event
	now   bool // it holds r.telling
}

func (s *story) tell(e Event) {
	if s.r.Tell == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.now:
		s.r.Tell(e)
		return
	case s.r.telling.TryLock():
		s.begin()
	case len(s.later) >= maxStory:
		s.r.telling.Lock()
		s.begin()
	default:
		s.later = append(s.later, e)
		return
	}
	s.r.Tell(e)
}

// begin is called with r.telling held.
func (s *story) begin() {
	s.now = true
	for _, e := range s.later {
		s.r.Tell(e)
	}
	s.later = nil
}

// end tells what is left.
func (s *story) end() {
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

// tellRepository tells what of a repository is kept.
func (r *run) tellRepository(repo *repository) {
	if r.Tell == nil {
		return
	}
	for i := range repo.revisions {
		rev := &repo.revisions[i]
		if !rev.live {
			continue
		}
		repo.story.tell(Event{Kind: Manifest, Repository: repo.name, Digest: r.digests.digest(rev.id)})
		refs, _ := r.graph.get(rev.id)
		for _, ref := range refs.needs {
			if _, also := repo.find(ref); !also {
				repo.story.tell(Event{Kind: Blob, Repository: repo.name, Digest: r.digests.digest(ref)})
			}
		}
	}
}

// tellMarked tells that everything was read.
func (r *run) tellMarked() {
	r.tell(Event{Kind: Marked, Report: &r.report, Marked: r.digests.marked()})
}
