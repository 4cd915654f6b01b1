// Valuesschema writes the schema of a service's settings into the schema of its chart's values, so
// that helm refuses a setting that the service would refuse at its start:
//
//	registry config schema | go run ./tools/valuesschema deploy/charts/registry/values.schema.json
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: valuesschema VALUES.SCHEMA.JSON <CONFIG.SCHEMA.JSON")
		os.Exit(2)
	}
	if err := update(os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "valuesschema:", err)
		os.Exit(1)
	}
}

func update(file string, settings io.Reader) error {
	values, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	schema, err := io.ReadAll(settings)
	if err != nil {
		return err
	}
	values, err = merge(values, schema)
	if err != nil {
		return err
	}
	return os.WriteFile(file, values, 0o644) //nolint:gosec // a file of the repository
}

// merge replaces the property "config" of values by schema, in one line, and leaves all other bytes alone.
func merge(values, schema []byte) ([]byte, error) {
	const property = "\n    \"config\": "
	before, rest, found := bytes.Cut(values, []byte(property))
	end := bytes.Index(rest, []byte("\n    \""))
	if !found || end < 0 {
		return nil, errors.New("the schema of the values has no property config, followed by another one, in lines of their own")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, schema); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return bytes.Join([][]byte{before, []byte(property), line.Bytes(), []byte(","), rest[end:]}, nil), nil
}
