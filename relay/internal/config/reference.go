package config

import (
	_ "embed"
	"io"

	"slipway/shared/config"
)

//go:embed reference.md
var introduction string

// Reference writes docs/configuration/relay.md: every setting there is.
func Reference(w io.Writer) error {
	defaults := Default()
	return config.Reference(w, introduction, &defaults)
}

// Schema writes a JSON Schema of every setting.
func Schema(w io.Writer) error {
	defaults := Default()
	return config.JSONSchema(w, &defaults)
}
