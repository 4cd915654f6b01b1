// Package openapi holds the document that describes the relay's HTTP interface.
package openapi

import _ "embed"

// Document is openapi.yml.
//
//go:embed openapi.yml
var Document []byte
