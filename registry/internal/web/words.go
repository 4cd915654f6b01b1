package web

import (
	"html/template"
	"net/url"
	"strings"

	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/web/imageinfo"
	ui "slipway/shared/web"
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
		"shortHex":    shortHex,
		"kind":        imageinfo.KindOf,
		"entryKind":   func(d oci.Descriptor) string { return imageinfo.KindOfEntry(&d) },
		"helmVersion": func(tag string) string { return strings.ReplaceAll(tag, "_", "+") },
		"size":        bytesize.Text, // the units of the commands
		"ruleKey":     retention.RuleKey,
		"sentence":    ui.Sentence,
	}
}

// short is the beginning of a digest, enough to tell two apart.
func short(d oci.Digest) string { return string(d.Algorithm()) + ":" + shortHex(d) }

// shortHex is short without the algorithm, for narrow columns.
func shortHex(d oci.Digest) string {
	hex := d.Hex()
	return hex[:min(len(hex), 12)]
}
