package image

import "strings"

// kinds are the words for types of artifacts and contents, by what the type contains.
var kinds = []struct{ part, word string }{
	{"cosign.artifact.sig", "signature"},
	{"cosign.simplesigning", "signature"},
	{"notary.signature", "signature"},
	{"sigstore.bundle", "signature"},
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
