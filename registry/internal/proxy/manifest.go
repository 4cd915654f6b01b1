package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

// confirmAfter is the age at which a tag that the upstream confirms is renewed in the storage.
const confirmAfter = time.Hour

// manifest returns what a reference stands for. have is what r holds, nil for nothing: it is
// returned if it is fresh enough, or nothing better is available.
func (c *Registry) manifest(ctx context.Context, s *Source, r registry.Repository, ref oci.Reference, have *registry.Manifest) (*registry.Manifest, error) {
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
		m, err := c.fetchTag(ctx, s, r, key, nil)
		return m, s.fault(err, oci.CodeManifestUnknown)
	}
	if s.Offline {
		return s.stale(have, offline), nil
	}
	if reason, _ := s.pause(); reason != "" {
		return s.stale(have, reason), nil
	}
	patience, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	m, err := c.fetchTag(patience, s, r, key, have)
	switch {
	case err == nil && m != nil:
		s.metrics.hit(false)
		return m, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case patience.Err() != nil:
		return s.stale(have, upstream.Slow), nil // the check continues
	case errors.Is(err, errGone):
		return nil, err
	}
	return s.stale(have, orInvalid(err)), nil
}

// errGone means that the upstream hasn't had a tag for longer than the TTL.
var errGone = errors.New("the upstream has not had the tag for longer than its TTL")

// stale returns a stored manifest that could not be checked, with a warning.
func (s *Source) stale(have *registry.Manifest, reason upstream.Reason) *registry.Manifest {
	s.metrics.stale(reason)
	return have.WithWarning(s.warning(reason))
}

func (c *Registry) checkedWithin(key tagKey, ttl time.Duration) bool {
	at, ok := c.checked.Get(key)
	return ok && c.now().Sub(at) < ttl
}

// refused is the reason not to ask the upstream for something that isn't stored.
func (c *Registry) refused(s *Source, key any) error {
	if until, ok := c.unknown.Get(key); ok && c.now().Before(until) {
		code := oci.CodeManifestUnknown
		if _, blob := key.(blobKey); blob {
			code = oci.CodeBlobUnknown
		}
		return &oci.Error{Code: code, Message: "", Err: errors.New("the upstream didn't have it a moment ago")}
	}
	return s.silent()
}

// fetchTag asks the upstream what the tag points at, and stores that. The error is that of the
// upstream, or has errGone.
func (c *Registry) fetchTag(wait context.Context, s *Source, r registry.Repository, key tagKey, have *registry.Manifest) (*registry.Manifest, error) {
	return once(wait, c, &c.manifests, key.String(), func() (*registry.Manifest, error) {
		ctx := c.ctx
		if have == nil || c.checkedWithin(key, s.TagTTL) { // another call fetched or checked it meanwhile
			if m, err := r.Manifest(ctx, oci.Reference{Tag: key.tag}); err == nil {
				return m, nil
			}
		}
		m, err := c.currentTag(ctx, s, r, key, have)
		if err == nil {
			c.checked.Put(key, c.now(), 1)
			c.unknown.Forget(key)
			return m, nil
		}
		c.noteUnknown(key, err)
		if upstream.ReasonOf(err) == upstream.NotFound && have != nil && c.outlived(ctx, s, r, key) {
			return nil, &oci.Error{Code: oci.CodeManifestUnknown, Err: errGone}
		}
		return nil, err
	})
}

// currentTag returns what the tag points at upstream. If there is a stored manifest it asks
// only for the digest, which doesn't count against pull limits.
func (c *Registry) currentTag(ctx context.Context, s *Source, r registry.Repository, key tagKey, have *registry.Manifest) (*registry.Manifest, error) {
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

// confirm renews a stored tag from time to time.
func (c *Registry) confirm(ctx context.Context, s *Source, r registry.Repository, key tagKey, d oci.Digest) {
	at, err := r.TagModified(ctx, key.tag)
	if err == nil && c.now().Sub(at) > confirmAfter {
		err = r.ConfirmTag(ctx, key.tag, d)
	}
	if err != nil {
		c.opts.Log.Debug("cannot renew a cached tag", zap.String("upstream", s.Name), zap.Error(err))
	}
}

// outlived reports whether a tag that is gone upstream has exceeded its TTL, and removes it then.
func (c *Registry) outlived(ctx context.Context, s *Source, r registry.Repository, key tagKey) bool {
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

// byDigest fetches a manifest that isn't stored.
func (c *Registry) byDigest(ctx context.Context, s *Source, r registry.Repository, d oci.Digest) (*registry.Manifest, error) {
	s.metrics.miss(false)
	key := manifestKey{r.Name(), d}
	if err := c.refused(s, key); err != nil {
		return nil, err
	}
	return once(ctx, c, &c.manifests, key.String(), func() (*registry.Manifest, error) {
		ctx := c.ctx
		ref := oci.Reference{Digest: d}
		if m, err := r.Manifest(ctx, ref); err == nil { // another call fetched it meanwhile
			return m, nil
		}
		m, err := c.fetch(ctx, s, r, ref)
		c.noteUnknown(key, err)
		return m, s.fault(err, oci.CodeManifestUnknown)
	})
}

// fetch gets a manifest from the upstream and stores it if it can. The error is that of the
// upstream.
func (c *Registry) fetch(ctx context.Context, s *Source, r registry.Repository, ref oci.Reference) (*registry.Manifest, error) {
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

func (c *Registry) store(ctx context.Context, s *Source, r registry.Repository, m *upstream.Manifest, tag oci.Tag) (*registry.Manifest, error) {
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

// notStored records that something goes to clients without being cached.
func (c *Registry) notStored(s *Source, name oci.Name, what string, err error) {
	s.metrics.notStored()
	c.opts.Log.Warn("cannot cache an object; clients get it uncached", zap.String("upstream", s.Name),
		zap.String("repository", string(name)), zap.String("digest", what), zap.Error(err))
}
