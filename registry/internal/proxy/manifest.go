package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

// confirmAfter is the age from which it is noted in the tree that a tag still stands.
const confirmAfter = time.Hour

// Manifest implements registry.Upstream.
func (c *Cache) Manifest(ctx context.Context, r registry.Repository, ref oci.Reference, have *registry.Manifest) (*registry.Manifest, error) {
	s := c.source(r.Name())
	if ref.Tag == "" {
		return c.byDigest(ctx, s, r, ref.Digest)
	}
	key := tagKey{r.Name(), ref.Tag}
	if have != nil && c.checkedWithin(key, s.TagTTL) {
		s.metrics.hit(false)
		return have, nil
	}
	if have == nil {
		s.metrics.miss(false)
		if err := c.refused(s, key); err != nil {
			return nil, err
		}
		return c.fetchTag(s, r, key, nil).wait(ctx)
	}
	if s.Offline {
		return s.stale(have, offline), nil
	}
	if reason, _ := s.pause(); reason != "" {
		return s.stale(have, reason), nil
	}
	patience, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	m, err := c.fetchTag(s, r, key, have).wait(patience)
	switch {
	case err == nil && m != nil:
		s.metrics.hit(false)
		return m, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case patience.Err() != nil:
		return s.stale(have, upstream.Slow), nil // the check goes on
	case errors.Is(err, errGone):
		return nil, err
	}
	return s.stale(have, reasonOf(err)), nil
}

// reasonOf is the reason inside an error of the rules that fault has made.
func reasonOf(err error) upstream.Reason {
	var f *fetchError
	if errors.As(err, &f) {
		return f.reason
	}
	return upstream.Invalid
}

// fetchError keeps the reason of what a client is told.
type fetchError struct {
	reason upstream.Reason
	error
}

func (e *fetchError) Unwrap() error { return e.error }

// errGone means that the upstream has not had a tag for longer than the TTL.
var errGone = errors.New("the tag is gone at the upstream for longer than its time in the cache")

// stale answers with a copy that could not be checked.
func (s *Source) stale(have *registry.Manifest, reason upstream.Reason) *registry.Manifest {
	s.metrics.stale(reason)
	return have.WithWarning(s.warning(reason))
}

func (c *Cache) checkedWithin(key tagKey, ttl time.Duration) bool {
	at, ok := c.checked.get(key)
	return ok && c.now().Sub(at) < ttl
}

// refused is why there is no use in asking for something of which there is no copy.
func (c *Cache) refused(s *Source, key any) error {
	if until, ok := c.unknown.get(key); ok && c.now().Before(until) {
		code := oci.CodeManifestUnknown
		if _, blob := key.(blobKey); blob {
			code = oci.CodeBlobUnknown
		}
		return &oci.Error{Code: code, Message: "", Err: errors.New("the upstream did not have it a moment ago")}
	}
	return s.silent()
}

// fetchTag asks the upstream what the tag points at, and brings that in.
func (c *Cache) fetchTag(s *Source, r registry.Repository, key tagKey, have *registry.Manifest) *call[*registry.Manifest] {
	return c.manifests.start(c, key, func(ctx context.Context) (*registry.Manifest, error) {
		if have == nil || c.checkedWithin(key, s.TagTTL) { // it came, or was checked, since this was asked for
			if m, err := r.Manifest(ctx, oci.Reference{Tag: key.tag}); err == nil {
				return m, nil
			}
		}
		m, err := c.currentTag(ctx, s, r, key, have)
		if err == nil {
			c.checked.put(key, c.now(), 1)
			c.unknown.forget(key)
			return m, nil
		}
		if upstream.ReasonOf(err) == upstream.NotFound {
			c.unknown.put(key, c.now().Add(c.opts.Unknown), 1)
			if have != nil && c.outlived(ctx, s, r, key) {
				return nil, &oci.Error{Code: oci.CodeManifestUnknown, Err: errGone}
			}
		}
		return nil, &fetchError{upstream.ReasonOf(err), s.fault(err, oci.CodeManifestUnknown)}
	})
}

// currentTag is what the tag points at upstream. Of what is cached only the digest is asked
// for, which costs nothing of the limits that registries have.
func (c *Cache) currentTag(ctx context.Context, s *Source, r registry.Repository, key tagKey, have *registry.Manifest) (*registry.Manifest, error) {
	ref := oci.Reference{Tag: key.tag}
	if have == nil {
		return c.fetch(ctx, s, r, ref)
	}
	d, err := s.Client.Head(ctx, s.remote(key.name), ref)
	s.note(err)
	switch {
	case err != nil:
		return nil, err
	case d == have.Digest:
		c.confirm(ctx, s, r, key, d)
		return have, nil
	case d != "":
		if m, err := r.Manifest(ctx, oci.Reference{Digest: d}); err == nil {
			return c.store(ctx, s, r, &upstream.Manifest{Digest: d, Bytes: m.Bytes}, key.tag)
		}
	}
	return c.fetch(ctx, s, r, ref)
}

// confirm notes in the tree, now and then, that the tag still stands.
func (c *Cache) confirm(ctx context.Context, s *Source, r registry.Repository, key tagKey, d oci.Digest) {
	at, err := r.TagModified(ctx, key.tag)
	if err == nil && c.now().Sub(at) > confirmAfter {
		err = r.ConfirmTag(ctx, key.tag, d)
	}
	if err != nil {
		c.opts.Log.Debug("cannot renew a cached tag", zap.String("upstream", s.Name), zap.Error(err))
	}
}

// outlived says whether a tag that is gone upstream has been in the cache for its time, and
// removes it then.
func (c *Cache) outlived(ctx context.Context, s *Source, r registry.Repository, key tagKey) bool {
	if s.TTL <= 0 {
		return false
	}
	at, err := r.TagModified(ctx, key.tag)
	if err != nil || c.now().Sub(at) < s.TTL {
		return false
	}
	if err := r.ForgetTag(ctx, key.tag); err != nil {
		c.opts.Log.Warn("cannot remove a tag from the cache", zap.String("upstream", s.Name), zap.Error(err))
	}
	return true
}

// byDigest brings in a manifest that the repository does not hold.
func (c *Cache) byDigest(ctx context.Context, s *Source, r registry.Repository, d oci.Digest) (*registry.Manifest, error) {
	s.metrics.miss(false)
	key := manifestKey{r.Name(), d}
	if err := c.refused(s, key); err != nil {
		return nil, err
	}
	return c.manifests.start(c, key, func(ctx context.Context) (*registry.Manifest, error) {
		ref := oci.Reference{Digest: d}
		if m, err := r.Manifest(ctx, ref); err == nil { // it came meanwhile
			return m, nil
		}
		m, err := c.fetch(ctx, s, r, ref)
		if upstream.ReasonOf(err) == upstream.NotFound {
			c.unknown.put(key, c.now().Add(c.opts.Unknown), 1)
		}
		return m, s.fault(err, oci.CodeManifestUnknown)
	}).wait(ctx)
}

// fetch gets a manifest from the upstream and stores it. It is good also if it cannot be
// stored. The error is that of the upstream.
func (c *Cache) fetch(ctx context.Context, s *Source, r registry.Repository, ref oci.Reference) (*registry.Manifest, error) {
	if wait := s.budget.take(); wait > 0 {
		return nil, &upstream.Error{Reason: upstream.Limited, RetryAfter: wait, Err: errors.New("the budget of requests per hour is used up")}
	}
	begun := time.Now()
	m, err := s.Client.Manifest(ctx, s.remote(r.Name()), ref)
	s.note(err)
	s.metrics.waited(time.Since(begun))
	if err != nil {
		return nil, err
	}
	s.metrics.pulled(false, int64(len(m.Bytes)))
	return c.store(ctx, s, r, m, ref.Tag)
}

func (c *Cache) store(ctx context.Context, s *Source, r registry.Repository, m *upstream.Manifest, tag oci.Tag) (*registry.Manifest, error) {
	stored, err := r.CacheManifest(ctx, m.Digest, m.Bytes, tag)
	if err != nil {
		c.notStored(s, r.Name(), string(m.Digest), err)
	} else {
		c.count(int64(len(m.Bytes)))
	}
	if stored == nil {
		return nil, &upstream.Error{Reason: upstream.Invalid, Err: err}
	}
	return stored, nil
}

// notStored notes that something goes to clients without being cached.
func (c *Cache) notStored(s *Source, name oci.Name, what string, err error) {
	s.metrics.notStored()
	c.opts.Log.Warn("cannot cache what clients pull; it is served uncached", zap.String("upstream", s.Name),
		zap.String("repository", string(name)), zap.String("digest", what), zap.Error(err))
}
