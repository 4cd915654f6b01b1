package registry

import (
	"context"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// targets knows which tags of a repository may point at which manifest, so that
// a deletion need not look at all tags. It holds whatever was seen when it was
// made and each tag that this process has set since, or tried to: too many
// rather than too few, so who uses it looks at the tags it names. It is true for
// as long as this process alone serves the storage. A push of somebody who does
// not say that he serves (distribution) shows in the manifest's link, which each
// push of a tag writes: it has another time then than this process gave it.
type targets struct {
	crew string    // who served when it was made
	made time.Time // by the storage's clock

	mu   sync.Mutex
	tags map[oci.Digest][]oci.Tag
	room int // for how many more it may hold
}

// targetCache bounds the memory of all of them: some 50 bytes a unit.
const targetCache = 1 << 20

// noteTarget notes that tags may point at d from now on.
func (r Repository) noteTarget(d oci.Digest, tags []oci.Tag) {
	t, ok := r.reg.targets.get(r.name)
	if !ok || len(tags) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.room -= len(tags); t.room < 0 {
		r.reg.targets.take(r.name) // mostly tags that have moved on: made anew when it is needed
		return
	}
	t.tags[d] = append(t.tags[d], tags...)
}

// noteOwn notes the time that this process gave the link of a manifest.
func (r Repository) noteOwn(ctx context.Context, d oci.Digest) {
	if _, ok := r.reg.targets.get(r.name); !ok {
		return
	}
	path := layout.RevisionLink(r.name, d)
	if info, err := r.reg.driver.Stat(ctx, path); err == nil {
		r.reg.ownTimes.put(path, info.Changed, 1)
	}
}

// clockTick is how far the time of a file may lie behind that of the clock.
const clockTick = 50 * time.Millisecond

// hasOf says whether t knows of all pushes of d.
func (r Repository) hasOf(ctx context.Context, t *targets, d oci.Digest) bool {
	path := layout.RevisionLink(r.name, d)
	info, err := r.reg.find(ctx, path, toRead)
	if err != nil {
		return false
	}
	own, ok := r.reg.ownTimes.get(path)
	return ok && own.Equal(info.Changed) || info.Changed.Before(t.made.Add(-clockTick))
}

// tagsOf finds the tags that point at d, or will when their links are put back.
// Links that hold no digest are passed over; one that the storage cannot read may
// be such a tag. It is called with the repository's lock held alone.
func (r Repository) tagsOf(ctx context.Context, d oci.Digest, crew string, sole bool) ([]oci.Tag, error) {
	t, ok := r.reg.targets.get(r.name)
	if !ok || !sole || t.crew != crew || !r.hasOf(ctx, t, d) {
		var err error
		if t, err = r.readTargets(ctx); err != nil {
			return nil, err
		}
		if t.crew = crew; sole {
			r.reg.targets.put(r.name, t, int64(2*t.room))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []oci.Tag
	seen := map[oci.Tag]bool{}
	for _, tag := range t.tags[d] {
		if seen[tag] {
			continue
		}
		seen[tag] = true
		at, err := r.pointsAt(ctx, tag)
		if err != nil {
			return nil, fault(err)
		}
		if at == d {
			found = append(found, tag)
		}
	}
	return found, fault(ctx.Err())
}

// soleCrew says whether this process alone serves the storage, and names the
// time since when.
func (r Repository) soleCrew(ctx context.Context) (crew string, sole bool) {
	crew = r.reg.driver.Crew(ctx)
	return crew, crew != "" && r.reg.alone(ctx)
}

// readTargets looks at all tags.
func (r Repository) readTargets(ctx context.Context) (*targets, error) {
	t := &targets{made: r.reg.driver.Now(), tags: map[oci.Digest][]oci.Tag{}, room: 1000}
	all, err := r.reg.listDirs(ctx, layout.Tags(r.name))
	if absent(err) {
		return t, nil
	}
	if err != nil {
		return nil, fault(err)
	}
	for _, name := range all.names {
		tag, err := oci.ParseTag(name)
		if err != nil {
			continue
		}
		d, err := r.pointsAt(ctx, tag)
		if err != nil {
			return nil, fault(err)
		}
		if d != "" {
			t.tags[d] = append(t.tags[d], tag)
			t.room++
		}
		if ctx.Err() != nil {
			return nil, fault(ctx.Err())
		}
	}
	return t, nil
}
