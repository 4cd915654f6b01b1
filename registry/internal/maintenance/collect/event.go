package collect

import (
	"maps"
	"slices"

	"slipway/registry/internal/oci"
)

// Event is a step of a run, for people who watch it.
type Event struct {
	Kind       Kind
	Repository oci.Name
	Digest     oci.Digest
	Marked     int64 // for Marked: how many digests
}

// Kind describes what happened.
type Kind int

// The kinds, in the order in which they are emitted.
const (
	Repository  Kind = iota // begins
	Manifest                // is kept
	Blob                    // is needed by a manifest that is kept
	OldManifest             // is deleted
	OldLayer                // a repository's link to a blob is deleted
	OldTag                  // an entry of a tag's history is deleted, because its manifest is gone
	Marked                  // all repositories were read
	OldBlob                 // is deleted
	Waiting                 // for the end of requests of other processes, which takes long: comes first
)

func (r *run) emit(events ...Event) {
	if r.Tell == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	for _, e := range events {
		r.Tell(e)
	}
}

// tellKept emits what is kept of a repository, without other events in between.
func (r *run) tellKept(repo *repository) {
	if r.Tell == nil {
		return
	}
	events := []Event{{Kind: Repository, Repository: repo.name}}
	for _, d := range slices.Sorted(maps.Keys(repo.revisions)) {
		rev := repo.revisions[d]
		if !rev.live {
			continue
		}
		events = append(events, Event{Kind: Manifest, Repository: repo.name, Digest: d})
		for _, need := range rev.needs {
			if repo.revisions[need] == nil {
				events = append(events, Event{Kind: Blob, Repository: repo.name, Digest: need})
			}
		}
	}
	r.emit(events...)
}
