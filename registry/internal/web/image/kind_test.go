package image

import (
	"testing"

	"slipway/registry/internal/oci"
)

// cosign 3 stores signatures and attestations as bundles of one type.
func TestKindOfEntry(t *testing.T) {
	const bundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	for _, tt := range []struct{ artifactType, predicate, want string }{
		{bundle, "", "signature"},
		{bundle, "https://sigstore.dev/cosign/sign/v1", "signature"},
		{bundle, "https://slsa.dev/provenance/v1", "attestation"},
		{bundle, "https://spdx.dev/Document", "attestation"},
		{"application/vnd.dev.cosign.artifact.sig.v1+json", "", "signature"},
		{"application/spdx+json", "https://slsa.dev/provenance/v1", "SBOM"},
	} {
		d := oci.Descriptor{ArtifactType: tt.artifactType, Annotations: map[string]string{bundlePredicate: tt.predicate}}
		if got := KindOfEntry(&d); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.artifactType, tt.predicate, got, tt.want)
		}
	}
}
