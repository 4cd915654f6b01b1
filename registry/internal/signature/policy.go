// Package signature decides whether images are signed by the keys and identities that a policy names. It reads what cosign has attached to
// them in the repository, and asks no one else.
package signature

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// Bounds of what is read to judge one manifest.
const (
	maxContent       = 1 << 20 // bytes of a payload or a bundle
	maxLayers        = 32      // of an object with signatures
	maxReferrers     = 64      // of one manifest
	maxReads         = 256     // manifests and layers, with those of all indexes that contain it
	certificateReads = 32      // that verifying a certificate counts as
	cached           = 32 << 10
)

// verifications bounds those by certificates at a time in this process, so that they leave processors to other requests.
var verifications = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))

// Rule names the keys and identities for repositories, any of which must have signed.
type Rule struct {
	Repositories pattern.Names
	Keys         []Key
	Identities   *Identities
	Refuse       bool // what isn't signed is refused; false = it is served with a warning

	verdicts *cache.Cache[judged, Result] // functions of content that digests fix, so nothing ever makes an entry wrong
}

// judged is a manifest with an object that may hold its signatures, and the number of a layer in that. The layer's digest would not do:
// annotations are part of a signature. Without an object it stands for the question whether the manifest is an attachment.
type judged struct {
	image, object oci.Digest
	layer         int
}

// Policy is a list of rules; the first one that selects a repository decides. It is safe for concurrent use.
type Policy struct{ rules atomic.Pointer[[]Rule] }

// New makes a policy; nil if there are no rules.
func New(rules []Rule) *Policy {
	if len(rules) == 0 {
		return nil
	}
	p := &Policy{}
	p.Replace(rules)
	return p
}

// Replace replaces the rules, of which all verdicts are forgotten.
func (p *Policy) Replace(rules []Rule) {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].verdicts = cache.New[judged, Result](cached)
	}
	p.rules.Store(&rules)
}

// Check judges a manifest of the repository. Beside an error, which is one of the storage, the verdict is Unsigned.
func (p *Policy) Check(ctx context.Context, repo registry.Repository, m *registry.Manifest) (Result, error) {
	if p == nil {
		return Result{Verdict: Exempt}, nil
	}
	rules := *p.rules.Load()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Repositories.Match(repo.Name()) })
	if i < 0 {
		return Result{Verdict: Exempt}, nil
	}
	c := check{&rules[i], repo, maxReads}
	res, err := c.judge(ctx, m)
	if err != nil {
		res = Result{}
	}
	res.Refuse = rules[i].Refuse
	return res, err
}

// check judges one manifest by a rule.
type check struct {
	*Rule
	repo registry.Repository
	left int // manifests and layers that it may still read
}

// judge looks for signatures of the manifest, and of indexes that contain it.
func (c *check) judge(ctx context.Context, m *registry.Manifest) (Result, error) {
	own, err := c.search(ctx, m)
	if err != nil || own.Verdict == Verified {
		return own, err
	}
	if res, err := c.attachment(ctx, m); err != nil || res.Verdict == Exempt {
		return res, err
	}
	parents, err := c.repo.Parents(ctx, m.Digest)
	if err != nil {
		return own, err
	}
	referring, err := c.repo.Referring(ctx, parents)
	if err != nil {
		return own, err
	}
	looks := maxReads // for tags
	for _, d := range parents {
		if len(referring[d]) == 0 { // perhaps unsigned: each build makes an index of images that haven't changed
			if looks--; looks < 0 {
				continue
			} else if _, tagged := c.repo.TagTarget(ctx, signatureTag(d)); !tagged {
				continue
			}
		}
		index, err := c.peek(ctx, oci.Reference{Digest: d})
		if err != nil || c.left <= 0 {
			return own, err
		}
		if index == nil {
			continue
		}
		if res, err := c.search(ctx, index); err != nil || res.Verdict == Verified {
			return res, err
		}
	}
	return own, nil
}

// search looks for signatures of the manifest itself: by tag, as cosign 2 writes them, and among its referrers.
func (c *check) search(ctx context.Context, m *registry.Manifest) (Result, error) {
	best, err := c.read(ctx, m, oci.Reference{Tag: signatureTag(m.Digest)})
	if err != nil || best.Verdict == Verified || c.left <= 0 {
		return best, err
	}
	referrers, _, err := c.repo.Referrers(ctx, m.Digest, "", "", min(maxReferrers, c.left))
	if err != nil {
		return best, err
	}
	for i := range referrers {
		res, err := c.read(ctx, m, oci.Reference{Digest: referrers[i].Digest})
		if best = better(best, res); err != nil || best.Verdict == Verified {
			return best, err
		}
	}
	return best, nil
}

// signatureTag returns cosign 2's tag for signatures of the manifest.
func signatureTag(d oci.Digest) oci.Tag {
	return oci.Tag(string(d.Algorithm()) + "-" + d.Hex() + ".sig")
}

// peek reads a manifest: nil if there is none, or no more may be read.
func (c *check) peek(ctx context.Context, ref oci.Reference) (*registry.Manifest, error) {
	if c.left--; c.left < 0 {
		return nil, nil //nolint:nilnil // documented
	}
	m, err := c.repo.Peek(ctx, ref)
	if registry.IsLost(err) {
		return nil, nil //nolint:nilnil // documented
	}
	return m, err
}

// read judges the image by the signatures in an object, and remembers the verdict on each.
func (c *check) read(ctx context.Context, image *registry.Manifest, ref oci.Reference) (best Result, err error) {
	object, err := c.peek(ctx, ref)
	if object == nil || err != nil {
		return best, err
	}
	parsed, err := oci.ReadManifest(object.Bytes)
	if err != nil {
		return best, nil //nolint:nilerr // it holds no signature
	}
	for i := range parsed.Layers[:min(len(parsed.Layers), maxLayers)] {
		key := judged{image.Digest, object.Digest, i}
		res, ok := c.verdicts.Get(key)
		if !ok {
			if c.left--; c.left < 0 {
				return best, nil
			}
			if res, err = c.readLayer(ctx, image, key, &parsed.Layers[i]); err == nil {
				c.verdicts.Put(key, res, 1)
			} else if !registry.IsLost(err) { // a layer that is may come
				return best, err
			}
		}
		best = better(best, res)
	}
	return best, nil
}

func (c *check) readLayer(ctx context.Context, image *registry.Manifest, key judged, layer *oci.Descriptor) (Result, error) {
	if layer.MediaType != typeSimple && layer.MediaType != typeBundle {
		return Result{}, nil
	}
	content, err := c.repo.ReadBlob(ctx, layer.Digest, maxContent)
	if err != nil {
		return Result{}, err
	}
	s, ok := readBundle(content, image)
	if layer.MediaType == typeSimple {
		s, ok = readSimple(content, layer.Annotations, image)
	}
	switch {
	case !ok:
		return Result{}, nil
	case s.signedBy(c.Keys):
		return Result{Verdict: Verified}, nil
	case c.Identities == nil || s.bundle == nil:
		return Result{Verdict: Unverified}, nil
	}
	c.left -= certificateReads
	if err := verifications.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer verifications.Release(1)
	if res, ok := c.verdicts.Get(key); ok { // by another request meanwhile
		return res, nil
	}
	return c.Identities.verify(s), nil
}
