package web

import (
	"html/template"
	"net/url"
	"strings"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/oci"
)

// words are the functions of the registry's own templates.
func words(base string) template.FuncMap {
	return template.FuncMap{
		"repositoryURL": func(name oci.Name) string { return base + "/repository/" + string(name) },
		"tagURL": func(name oci.Name, tag string) string {
			return base + "/image/" + string(name) + ":" + url.PathEscape(tag)
		},
		"digestURL":   func(name oci.Name, d oci.Digest) string { return base + "/image/" + string(name) + "@" + string(d) },
		"downloadURL": func(name oci.Name, d oci.Digest) string { return base + "/download/" + string(name) + "@" + string(d) },
		"short":       short,
		"kind":        kindOf,
		"size":        bytesize.Text, // the units of the commands
		"ruleKey":     retention.RuleKey,
	}
}

// short is the beginning of a digest, enough to tell two apart.
func short(d oci.Digest) string {
	const digits = 12
	hex := d.Hex()
	return string(d.Algorithm()) + ":" + hex[:min(len(hex), digits)]
}

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

// kindOf is a word for the type of an artifact, or the type itself.
func kindOf(mediaType string) string {
	lower := strings.ToLower(mediaType)
	for _, k := range kinds {
		if strings.Contains(lower, k.part) {
			return k.word
		}
	}
	return mediaType
}
