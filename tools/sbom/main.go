// Command sbom writes what a Go binary is made of, as the linker noted it, as a
// CycloneDX document: the modules with their versions and hashes, and Go itself.
//
//	sbom NAME VERSION DATE BINARY > NAME.cdx.json
//
// The same binary gives the same document: DATE (RFC 3339) is the document's.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want NAME VERSION DATE BINARY, got %d arguments", len(args))
	}
	info, err := buildinfo.ReadFile(args[3])
	if err != nil {
		return err
	}
	e := cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON)
	return e.SetPretty(true).EncodeVersion(document(args[0], args[1], args[2], info), cdx.SpecVersion1_5)
}

func document(name, version, date string, info *buildinfo.BuildInfo) *cdx.BOM {
	self := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: "self", Name: name, Version: version}
	parts := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "slipway/") { // of this repository
			continue
		}
		for m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: date, Component: &self}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return bom
}

// module is a Go module; sum is the hash that go.sum has of it, or empty.
func module(path, version, sum string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl, Scope: cdx.ScopeRequired}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
