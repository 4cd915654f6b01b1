package retention

import (
	"strings"

	"slipway/registry/internal/oci"
)

const belongs = "it belongs to a manifest that stays"

// subjectOf is the begin of the digest in a tag by which clients find what
// belongs to a manifest, "" if the tag is none of those: sha256-<hex> is the
// list of referrers (distribution-spec "Referrers Tag Schema"), cosign adds
// .sig, .att or .sbom.
func subjectOf(tag oci.Tag) string {
	alg, rest, ok := strings.Cut(string(tag), "-")
	if !ok || alg != string(oci.SHA256) && alg != string(oci.SHA512) {
		return ""
	}
	hex, _, _ := strings.Cut(rest, ".")
	if _, err := oci.ParseDigest(string(oci.SHA256) + ":" + hex); err != nil {
		return ""
	}
	return alg + ":" + hex
}

// settle decides about the tags that belong to manifests: each goes if its
// manifest goes. What such a tag points at may itself have such tags.
func settle(verdicts []*Verdict, g *graph) (held map[oci.Digest]bool) {
	var waiting []*Verdict
	roots := g.untagged(verdicts)
	for _, v := range verdicts {
		switch {
		case v.Why == belongs:
			waiting = append(waiting, v)
		case !v.Delete:
			roots = append(roots, v.Digest)
		}
	}
	for {
		held = g.Closure(roots)
		left := waiting[:0:0]
		for _, v := range waiting {
			if d, known := g.begins[v.subject]; !known || held[d] { // not in the repository: nothing says that it goes
				roots = append(roots, v.Digest)
			} else {
				left = append(left, v)
			}
		}
		if len(left) == len(waiting) {
			break
		}
		waiting = left
	}
	for _, v := range waiting {
		v.Delete, v.Why = true, "it belongs to "+v.subject[:len("sha256:")+12]+", which goes"
	}
	return held
}
