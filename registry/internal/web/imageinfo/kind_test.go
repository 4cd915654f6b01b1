package imageinfo

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
		{"application/vnd.dev.cosign.artifact.sbom.v1+json", "", "SBOM"},
		{"application/spdx+json", "https://slsa.dev/provenance/v1", "SBOM"},
	} {
		d := oci.Descriptor{ArtifactType: tt.artifactType, Annotations: map[string]string{bundlePredicate: tt.predicate}}
		if got := KindOfEntry(&d); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.artifactType, tt.predicate, got, tt.want)
		}
	}
}

func TestKindOfManifest(t *testing.T) {
	const config, layer, signed = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.dev.cosign.simplesigning.v1+json"
	for _, tt := range []struct {
		config string
		layers []string
		want   string
	}{
		{"", nil, "image"},
		{config, nil, "image"},
		{config, []string{layer, layer}, "image"},
		{config, []string{signed, signed}, "signature"},
		{config, []string{"application/vnd.dsse.envelope.v1+json"}, "attestation"},
		{config, []string{"text/spdx+json"}, "SBOM"},
		{config, []string{layer, signed}, "image"},
		{config, []string{signed, "text/spdx+json"}, "image"},
		{"application/vnd.cncf.helm.config.v1+json", []string{signed}, "Helm chart"},
	} {
		m := &oci.Manifest{ArtifactType: tt.config}
		if tt.config != "" {
			m.Config = &oci.Descriptor{MediaType: tt.config}
		}
		for _, l := range tt.layers {
			m.Layers = append(m.Layers, oci.Descriptor{MediaType: l})
		}
		if got := kindOfManifest(m); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.config, tt.layers, got, tt.want)
		}
	}
}
