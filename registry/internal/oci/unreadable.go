package oci

import (
	"encoding/json"
	"errors"
)

// unreadable says why a body could not be decoded: it is no JSON, or has another
// type somewhere than a manifest has there.
func unreadable(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return invalid("manifest is not valid JSON: %s", excerpt(err.Error()))
	case wrong.Field == "":
		return invalid("manifest is of the wrong type: a JSON object is expected, not: %s", excerpt(wrong.Value))
	default:
		return invalid("manifest has a value of the wrong type: %s: %s does not belong there", excerpt(wrong.Field), excerpt(wrong.Value))
	}
}

// maxExcerpt is how much of what a client sent is repeated to it, and in the log.
const maxExcerpt = 200

// excerpt is the begin of a text that may be of any length.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	return s[:maxExcerpt] + "…"
}
