package collect

import "sync"

// references is what a manifest needs, and its subject.
type references struct {
	needs      []id
	subject    id
	hasSubject bool
}

// graph remembers what manifests need. A digest fixes that, so each manifest is
// read once in a run. It is safe for concurrent use.
type graph struct {
	mu        sync.Mutex
	manifests map[id]span
	arena     []id
}

// span is a piece of the arena; the subject, if there is one, lies behind it.
type span struct {
	start, end uint32
	subject    bool
}

func newGraph() *graph { return &graph{manifests: map[id]span{}} }

// get returns what is known of a manifest. Nobody changes it.
func (g *graph) get(i id) (references, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.manifests[i]
	if !ok {
		return references{}, false
	}
	refs := references{needs: g.arena[s.start:s.end:s.end], hasSubject: s.subject}
	if s.subject {
		refs.subject = g.arena[s.end]
	}
	return refs, true
}

// put notes what a manifest needs.
func (g *graph) put(i id, refs references) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.manifests[i]; ok {
		return
	}
	s := span{start: uint32(len(g.arena)), subject: refs.hasSubject}
	g.arena = append(g.arena, refs.needs...)
	s.end = uint32(len(g.arena))
	if refs.hasSubject {
		g.arena = append(g.arena, refs.subject)
	}
	g.manifests[i] = s
}
