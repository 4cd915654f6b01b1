package collect

func (r *run) tell(e Event) {
	if r.Tell != nil {
		r.Tell(e)
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
		r.tell(Event{Kind: Manifest, Repository: repo.name, Digest: rev.digest})
		for _, ref := range r.needs(r.manifests[rev.id]) {
			if _, also := repo.index[ref]; !also {
				r.tell(Event{Kind: Blob, Repository: repo.name, Digest: r.digests.digest(ref)})
			}
		}
	}
}

// tellMarked tells that everything was read.
func (r *run) tellMarked() {
	marked := int64(0)
	for i := range r.digests.n {
		if r.digests.note(i).what != 0 {
			marked++
		}
	}
	r.tell(Event{Kind: Marked, Report: &r.report, Marked: marked})
}
