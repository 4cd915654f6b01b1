package oci

import (
	"encoding/json"
	"strings"
)

// Bounds on a manifest's shape. A few bytes of JSON become a descriptor of
// hundreds of bytes in memory, so a hostile body inside the size limit could
// otherwise take a hundred times its length. Real indexes have some hundred
// entries.
const (
	maxObjects  = 20_000
	maxElements = 200_000
	maxDepth    = 64
)

// shape walks a JSON document once, before it is decoded, and returns its
// top-level keys. The error is about the bounds alone: whether the document is
// JSON, the decoder says.
func shape(body []byte) (keys []string, err error) {
	var objects, elements, depth int
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			end := stringEnd(body, i)
			if depth == 1 && isKey(body, end) {
				keys = append(keys, unquote(body[i:end]))
			}
			i = end - 1
		case '{':
			objects++
			elements++
			depth++
		case '[':
			elements++
			depth++
		case '}', ']':
			depth--
		case ',':
			elements++
		}
		if objects > maxObjects || elements > maxElements || depth > maxDepth {
			return nil, invalid("manifest has too many or too deeply nested elements")
		}
	}
	return keys, nil
}

// fields are the keys that the registry reads.
var fields = []string{"schemaVersion", "mediaType", "artifactType", "config", "layers", "fsLayers", "manifests", "subject", "annotations", "signatures"}

// checkKeys refuses keys that one reader could take for another: encoding/json
// folds the case of keys and takes the last of several, other readers of the
// same bytes don't.
func checkKeys(keys []string) error {
	seen := make(map[string]bool, len(fields))
	for _, key := range keys {
		for _, field := range fields {
			if strings.EqualFold(key, field) && (key != field || seen[field]) {
				return invalid("manifest has the key %q twice, or in the wrong case", key)
			}
			seen[field] = seen[field] || key == field
		}
	}
	return nil
}

// stringEnd is the index behind the string that begins at start.
func stringEnd(body []byte, start int) int {
	for i := start + 1; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(body)
}

// isKey reports whether a colon follows.
func isKey(body []byte, i int) bool {
	for ; i < len(body); i++ {
		switch body[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return body[i] == ':'
		}
	}
	return false
}

// unquote reads a JSON string; "" if it isn't one, which the decoder reports.
func unquote(quoted []byte) (s string) {
	_ = json.Unmarshal(quoted, &s)
	return s
}
