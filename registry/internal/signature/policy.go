// Package signature decides whether images are signed by the keys and identities that a policy names. It reads what cosign has attached to
// them in the repository, and asks no one else.
package signature

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// Bounds of what is read to judge one manifest.
const (
	maxContent      = 1 << 20 // bytes of a payload or a bundle
	maxSignatures   = 32      // objects with signatures, and signatures in each
	maxReferrers    = 64      // of one manifest
	maxReads        = 256     // manifests and layers, with those of all indexes that contain it
	maxCertificates = 32      // verified, of the same
	maxParents      = 16      // indexes that contain the manifest
	cached          = 32 << 10
)

// budget counts what a check may still read and verify.
type budget struct{ reads, certificates int }

var errCertificates = fmt.Errorf("more than %d certificates in one check", maxCertificates)

// verifications bounds those by certificates at a time in this process, so that they leave processors to other requests.
var verifications = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))

// Rule names the keys and identities for repositories, any of which must have signed.
type Rule struct {
	Repositories pattern.Names
	Keys         []Key
	Identities   *Identities
	Refuse       bool // what isn't signed is refused; false = it is served with a warning
}

// Policy is a list of rules; the first one that selects a repository decides. It is safe for concurrent use.
type Policy struct{ rules atomic.Pointer[[]*rule] }

type rule struct {
	Rule
	verdicts *cache.Cache[judged, Result] // functions of content that digests fix, so nothing ever makes an entry wrong
}

// judged is a manifest with an object that may hold its signatures, and the number of a layer in that. The layer's digest would not do:
// annotations are part of a signature. Without an object it stands for the question whether the manifest is an attachment.
type judged struct {
	image, object oci.Digest
	layer         int
}

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
	var all []*rule
	for _, r := range rules {
		all = append(all, &rule{r, cache.New[judged, Result](cached)})
	}
	p.rules.Store(&all)
}

// Verdict is the state of a manifest under a policy. A greater one is better.
type Verdict int

// The verdicts.
const (
	Unsigned   Verdict = iota // there is no signature of it
	Unverified                // there are signatures, none of which the rule accepts
	Exempt                    // it needs no signature: it is one, or an attestation or SBOM, which no one can run, or no rule names the repository
	Verified                  // a key or identity of the rule has signed it, or an index that contains it
)

// Result is the verdict on a manifest, and whether the rule refuses those that are not signed.
type Result struct {
	Verdict Verdict
	Cause   string // of Unverified: why a certificate isn't accepted, for the log; "" if there is none
	Refuse  bool
}

func better(a, b Result) Result {
	if b.Verdict > a.Verdict {
		return b
	}
	return a
}

// OK reports whether the manifest may be served without a warning.
func (r Result) OK() bool { return r.Verdict >= Exempt }

// Reason explains to a client why the result isn't OK.
func (r Result) Reason() string {
	if r.Verdict == Unverified {
		return "the manifest is signed, but by no key or identity of policy.signatures"
	}
	return "the manifest is not signed, and policy.signatures wants a signature"
}

// Check judges a manifest of the repository. Beside an error, which is one of the storage, the verdict is Unsigned.
func (p *Policy) Check(ctx context.Context, repo registry.Repository, m *registry.Manifest) (Result, error) {
	if p == nil {
		return Result{Verdict: Exempt}, nil
	}
	for _, r := range *p.rules.Load() {
		if r.Repositories.Match(repo.Name()) {
			res, err := r.check(ctx, repo, m)
			res.Refuse = r.Refuse
			return res, err
		}
	}
	return Result{Verdict: Exempt}, nil
}

func (r *rule) check(ctx context.Context, repo registry.Repository, m *registry.Manifest) (Result, error) {
	left := budget{maxReads, maxCertificates}
	own, err := r.judge(ctx, repo, m, &left)
	if err != nil || own.Verdict == Verified {
		return own, err
	}
	if res, err := r.attachment(ctx, repo, m); err != nil || res.Verdict == Exempt {
		return res, err
	}
	parents, err := repo.Parents(ctx, m.Digest)
	if err != nil {
		return Result{}, err
	}
	for _, d := range parents[:min(len(parents), maxParents)] {
		index, err := repo.Peek(ctx, oci.Reference{Digest: d})
		if registry.IsLost(err) {
			continue
		} else if err != nil {
			return Result{}, err
		}
		if res, err := r.judge(ctx, repo, index, &left); err != nil || res.Verdict == Verified {
			return res, err
		}
	}
	return own, nil
}

// judge looks for signatures of the manifest itself: by tag, as cosign 2 writes them, and among its referrers. It subtracts what
// it reads from left, and reads nothing if that is used up.
func (r *rule) judge(ctx context.Context, repo registry.Repository, m *registry.Manifest, left *budget) (Result, error) {
	best := Result{}
	if left.reads <= 0 {
		return best, nil
	}
	consider := func(ref oci.Reference) error {
		object, err := repo.Peek(ctx, ref)
		if registry.IsLost(err) {
			return nil
		} else if err != nil {
			return err
		}
		res, err := r.read(ctx, repo, m, object, left)
		best = better(best, res)
		return err
	}
	if err := consider(oci.Reference{Tag: signatureTag(m.Digest)}); err != nil || best.Verdict == Verified {
		return best, err
	}
	referrers, _, err := repo.Referrers(ctx, m.Digest, "", "", min(maxReferrers, left.reads))
	if err != nil {
		return Result{}, err
	}
	left.reads -= 1 + len(referrers)
	signatures := 0
	for i := range referrers {
		t := referrers[i].ArtifactType
		if signatures == maxSignatures || !strings.Contains(t, "sigstore.bundle") && !strings.Contains(t, "cosign") {
			continue
		}
		signatures++
		if err := consider(oci.Reference{Digest: referrers[i].Digest}); err != nil || best.Verdict == Verified {
			return best, err
		}
	}
	return best, nil
}

// signatureTag returns cosign 2's tag for signatures of the manifest.
func signatureTag(d oci.Digest) oci.Tag {
	return oci.Tag(string(d.Algorithm()) + "-" + d.Hex() + ".sig")
}

// read judges the image by the signatures in an object, and remembers the verdict on each. It subtracts the layers that it reads from left.
func (r *rule) read(ctx context.Context, repo registry.Repository, image, object *registry.Manifest, left *budget) (Result, error) {
	parsed, err := oci.ReadManifest(object.Bytes)
	if err != nil {
		return Result{}, nil //nolint:nilerr // it holds no signature
	}
	best := Result{}
	for i := range parsed.Layers[:min(len(parsed.Layers), maxSignatures)] {
		key := judged{image.Digest, object.Digest, i}
		res, ok := r.verdicts.Get(key)
		if !ok {
			if left.reads--; left.reads < 0 {
				break
			}
			res, err = r.readLayer(ctx, repo, image, key, &parsed.Layers[i], left)
			switch {
			case err == nil:
				r.verdicts.Put(key, res, 1)
			case errors.Is(err, errCertificates):
				res = Result{Verdict: Unverified, Cause: err.Error()}
			case !registry.IsLost(err): // a layer that is may come
				return Result{}, err
			}
		}
		best = better(best, res)
	}
	return best, nil
}

func (r *rule) readLayer(
	ctx context.Context, repo registry.Repository, image *registry.Manifest, key judged, layer *oci.Descriptor, left *budget,
) (Result, error) {
	if layer.MediaType != typeSimple && layer.MediaType != typeBundle {
		return Result{}, nil
	}
	content, err := repo.ReadBlob(ctx, layer.Digest, maxContent)
	if err != nil {
		return Result{}, err
	}
	var s statement
	if layer.MediaType == typeBundle {
		s, err = readBundle(content, image.Bytes)
	} else {
		s, err = readSimple(content, layer.Annotations)
	}
	if err != nil || !s.image || !s.about(image.Digest) {
		return Result{}, nil //nolint:nilerr // it is no signature of the image
	}
	if s.signedBy(r.Keys) {
		return Result{Verdict: Verified}, nil
	}
	if r.Identities == nil || s.bundle == nil {
		return Result{Verdict: Unverified}, nil
	}
	if left.certificates--; left.certificates < 0 {
		return Result{}, errCertificates
	}
	if err := verifications.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer verifications.Release(1)
	if res, ok := r.verdicts.Get(key); ok { // by another request meanwhile
		return res, nil
	}
	if err := r.Identities.verify(s.artifact, s.bundle); err != nil {
		return Result{Verdict: Unverified, Cause: fmt.Sprintf("%.300s", err)}, nil
	}
	return Result{Verdict: Verified}, nil
}
