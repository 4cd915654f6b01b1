package image

import (
	"strings"

	"slipway/registry/internal/oci"
)

const signature = "signature"

// kinds are the words for types of artifacts and contents, by what the type contains.
var kinds = []struct{ part, word string }{
	{"cosign.artifact.sig", signature},
	{"cosign.simplesigning", signature},
	{"notary.signature", signature},
	{"sigstore.bundle", signature},
	{"in-toto", "attestation"},
	{"dsse", "attestation"},
	{"spdx", "SBOM"},
	{"cyclonedx", "SBOM"},
	{"syft", "SBOM"},
	{"sarif", "scan report"},
	{"helm.config", "Helm chart"},
	{"helm.chart", "Helm chart"},
	{"wasm", "WebAssembly"},
	{"docker.plugin", "plugin"},
	{"image.config", "image"},
	{"container.image", "image"},
}

// bundlePredicate is cosign's annotation of a bundle: the type of the statement in it. signs is
// that of a signature.
const (
	bundlePredicate = "dev.sigstore.bundle.predicateType"
	signs           = "https://sigstore.dev/cosign/sign/v1"
)

// KindOfEntry is KindOf for an entry of a list of referrers.
func KindOfEntry(d *oci.Descriptor) string { return kindIn(d.ArtifactType, d.Annotations) }

// kindIn is KindOf with the annotations: cosign stores signatures and attestations as bundles.
func kindIn(artifactType string, annotations map[string]string) string {
	kind, predicate := KindOf(artifactType), annotations[bundlePredicate]
	if kind == signature && predicate != "" && predicate != signs {
		return "attestation"
	}
	return kind
}

// KindOf is a word for the type of an artifact, or the type itself.
func KindOf(mediaType string) string {
	lower := strings.ToLower(mediaType)
	for _, k := range kinds {
		if strings.Contains(lower, k.part) {
			return k.word
		}
	}
	return mediaType
}
