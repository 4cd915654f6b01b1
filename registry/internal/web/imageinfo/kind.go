package imageinfo

import (
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/web/scanreport"
)

const (
	signature   = "signature"
	attestation = "attestation"
	sbom        = "SBOM"
)

// ScanReport is the kind of reports of security scanners.
const ScanReport = "scan report"

// kinds are the words for types of artifacts and contents, by what the type contains.
var kinds = []struct{ part, word string }{
	{"cosign.artifact.sig", signature},
	{"cosign.simplesigning", signature},
	{"cosign.artifact.sbom", sbom},
	{"notary.signature", signature},
	{"sigstore.bundle", signature},
	{"in-toto", attestation},
	{"dsse", attestation},
	{"spdx", sbom},
	{"cyclonedx", sbom},
	{"syft", sbom},
	{"sarif", ScanReport},
	{"trivy.report", ScanReport},
	{"vuln", ScanReport},
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
		return attestation
	}
	return kind
}

// MayScan reports whether a manifest that refers to an image may have scan reports.
func MayScan(d *oci.Descriptor) bool {
	if predicate := d.Annotations[bundlePredicate]; predicate != "" {
		return scanreport.IsPredicate(predicate)
	}
	kind := KindOf(d.ArtifactType)
	return kind == ScanReport || kind == attestation
}

// kindOfManifest is a word for what a manifest describes. What cosign attaches by tags has the configuration of an image, and layers
// of types that no image has.
func kindOfManifest(m *oci.Manifest) string {
	if m.Config == nil {
		return "image"
	}
	if !IsConfig(m.Config.MediaType) {
		return kindIn(m.ArtifactType, m.Annotations)
	}
	kind := "image"
	for i := range m.Layers {
		of := KindOf(m.Layers[i].MediaType)
		if i > 0 && of != kind || of != signature && of != attestation && of != sbom {
			return "image"
		}
		kind = of
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
