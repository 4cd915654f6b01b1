package registry

import (
	"context"
	"errors"
	"sync"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// A client that was told that a blob or manifest is there may rely on it for
// Options.PromiseAge: that is a promise, and what the collector of garbage knows
// of it is the time of the link's last change. Telling costs a look at the link
// anyway, and so a promise costs nothing more while the time is new. When a
// quarter of the age has passed, the link is touched; the collector waits for
// five quarters. A link of before this process served is touched in any case: a
// collection that began while nobody did counts no promise of then.

// renew makes the promise that the link at path, which is to d, stays for the
// age. ErrNotExist if the link is gone.
func (r *Registry) renew(ctx context.Context, path string, d oci.Digest, info driver.Info) error {
	if r.promiseAge <= 0 || r.readOnly {
		return nil
	}
	r.tell(ctx)
	young := r.driver.Now().Sub(info.Changed) < r.promiseAge/4 && !r.serving.began(info.Changed)
	if !r.promises.told(path) && young {
		return nil
	}
	for range turns {
		err := r.driver.Touch(ctx, path, time.Time{})
		if errors.Is(err, driver.ErrReadOnly) {
			// Somebody else's file, in a directory that may be ours. If it is
			// not, nobody but its owner can collect it.
			if r.commit(ctx, driver.Stage{{Path: path, Content: layout.Link(d)}}) != nil {
				return nil //nolint:nilerr // nothing to keep the promise against
			}
			err = nil
		}
		if err == nil {
			// Touched after it was set aside, it may not have been seen.
			if info, err = r.driver.Stat(ctx, path); err == nil {
				r.ownTimes.put(path, info.Changed, 1)
			}
		}
		if err == nil || !absent(err) {
			return err
		}
		if err := r.bringBack(ctx, path); err != nil {
			return err
		}
	}
	return restless(path)
}

// promises knows those promises that were given once only: to the client that
// uploaded something new. Its manifest uses the promise up, and when that is
// deleted or loses its tag, nobody needs to wait for the age. As soon as anybody
// else is told, the promise is one like all others and not in here any more.
//
// All of this holds only for as long as this process alone serves the storage.
type promises struct {
	mu     sync.Mutex
	single map[string]*single // by path of the link
	scan   time.Time          // when some are looked for again that have run out
}

type single struct {
	crew     string    // who served when it was given
	given    time.Time // for forgetting it
	used     bool      // by a manifest
	shared   bool      // two uploaded it at the same time
	released bool      // the link's time was set back
	looks    time.Time // until when one look is the uploader's own
}

// maxSingle bounds their memory: some 20 MB.
const maxSingle = 64 << 10

// ownLook is how long after an upload a look at it is taken for the uploader's
// own, if it is a client that looks.
const ownLook = 5 * time.Second

// give notes a promise for what will be new at path.
func (p *promises) give(path string, s single, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.single == nil {
		p.single = map[string]*single{}
	}
	if len(p.single) >= maxSingle && !s.given.Before(p.scan) {
		p.forget(s.given, age)
	}
	if known := p.single[path]; known != nil {
		known.shared = true
	} else if len(p.single) < maxSingle {
		p.single[path] = &s
	}
}

// promiseScans is how often in an age those are looked for that have run out.
// A look goes through all, so it is not for each new one.
const promiseScans = 64

// forget needs p.mu. It forgets those that have run out by now.
func (p *promises) forget(now time.Time, age time.Duration) {
	oldest := now
	for path, s := range p.single {
		switch {
		case !s.given.After(now.Add(-age)):
			delete(p.single, path)
		case s.given.Before(oldest):
			oldest = s.given
		}
	}
	p.scan = oldest.Add(age)
	if soon := now.Add(age / promiseScans); p.scan.Before(soon) {
		p.scan = soon
	}
}

// told notes that a client was told of path. It is true if the link's time was
// set back.
func (p *promises) told(path string) (released bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.single[path]
	if s == nil {
		return false
	}
	if !s.released && time.Now().Before(s.looks) {
		s.looks = time.Time{}
		return false
	}
	delete(p.single, path)
	return s.released
}

// use notes that a manifest uses up the promise of path.
func (p *promises) use(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.single[path]; s != nil {
		s.used = true
	}
}

// release calls back, which sets the link's time back, if the promise of path
// was given once and is used up. Nobody can be told of path meanwhile.
func (p *promises) release(path, crew string, back func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.single[path]; s != nil && s.used && !s.shared && !s.released && s.crew == crew {
		s.released = true
		back()
	}
}

// again notes that the link was written anew for somebody who holds it by a tag.
func (p *promises) again(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.single[path]; s != nil {
		s.released = false
	}
}

func (p *promises) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.single) > 0
}

// promiseNew notes the promise that a client is given with the link that is
// about to be written, if it is new.
func (r *Registry) promiseNew(ctx context.Context, path string, looks bool) {
	if r.promiseAge <= 0 || !r.serving.told.Load() {
		return
	}
	if _, err := r.find(ctx, path, toRead); !absent(err) {
		r.promises.told(path)
		return
	}
	r.promiseOnce(ctx, path, looks)
}

// promiseOnce is promiseNew where nothing is at path.
func (r *Registry) promiseOnce(ctx context.Context, path string, looks bool) {
	if r.promiseAge <= 0 || !r.serving.told.Load() {
		return
	}
	s := single{crew: r.driver.Crew(ctx), given: time.Now()}
	if looks {
		s.looks = s.given.Add(ownLook)
	}
	r.promises.give(path, s, r.promiseAge)
}

// promiseManifest notes the promise that a client is given with a manifest that
// is about to be written. A tag uses it up: it keeps the manifest by itself.
func (r Repository) promiseManifest(ctx context.Context, d oci.Digest, tags []oci.Tag) {
	path := layout.RevisionLink(r.name, d)
	if len(tags) == 0 {
		r.reg.promiseNew(ctx, path, false)
		return
	}
	r.reg.promises.again(path)
	if _, err := r.reg.find(ctx, path, toRead); absent(err) {
		r.reg.promiseOnce(ctx, path, false)
		r.reg.promises.use(path)
	}
}

// moved is what the tags point at before they point at d, as far as it can be
// released.
func (r Repository) moved(ctx context.Context, d oci.Digest, tags []oci.Tag) []oci.Digest {
	var before []oci.Digest
	if !r.reg.promises.any() {
		return nil
	}
	for _, tag := range tags {
		if old, err := r.pointsAt(ctx, tag); err == nil && old != "" && old != d {
			before = append(before, old)
		}
	}
	return before
}

// usePromises notes that a manifest needs no promises any more.
func (r Repository) usePromises(m *oci.Manifest) {
	if !r.reg.promises.any() {
		return
	}
	use := func(d oci.Digest) {
		r.reg.promises.use(layout.LayerLink(r.name, d))
		r.reg.promises.use(layout.RevisionLink(r.name, d))
	}
	if m.Config != nil {
		use(m.Config.Digest)
	}
	for i := range m.Layers {
		use(m.Layers[i].Digest)
	}
	for i := range m.Manifests {
		use(m.Manifests[i].Digest)
	}
}

// maxDepth is how deep indexes of indexes are followed where more is of no use.
const maxDepth = 8

// longAgo is the time of a link that nobody relies on.
var longAgo = time.Unix(1, 0)

// releasePromises sets back the time of all that only the manifest needed and
// its uploader was told of. The manifest was deleted, or lost a tag. What cannot
// be released now is free when the age has passed.
func (r Repository) releasePromises(ctx context.Context, d oci.Digest, depth int) {
	reg := r.reg
	if depth == 0 || !reg.promises.any() || !reg.alone(ctx) {
		return
	}
	crew := reg.driver.Crew(ctx)
	refs, err := reg.references(ctx, d)
	if err != nil {
		return
	}
	release := func(path string) {
		reg.promises.release(path, crew, func() {
			reg.driver.Touch(ctx, path, longAgo) //nolint:errcheck // see above
		})
	}
	release(layout.RevisionLink(r.name, d))
	for _, ref := range refs.Needed {
		release(layout.LayerLink(r.name, ref))
		if _, err := reg.driver.Stat(ctx, layout.RevisionLink(r.name, ref)); err == nil {
			r.releasePromises(ctx, ref, depth-1)
		}
	}
}

// alone says whether this process is the only one that serves the storage.
func (r *Registry) alone(ctx context.Context) bool {
	if !r.serving.told.Load() {
		return false
	}
	return r.crew.sole(ctx, r.driver)
}
