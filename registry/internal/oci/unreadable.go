package oci

import (
	"encoding/json"
	"errors"
	"strings"
)

// errOdd is inside the error for a value of the wrong type where CNCF
// distribution does not look: it is refused when it is pushed, but may be stored.
var errOdd = errors.New("a field that distribution does not read has the wrong type")

// unreadable explains why a body could not be decoded: it is no JSON, or has another
// type somewhere than a manifest has there.
func unreadable(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return invalid("manifest is not valid JSON: %s", excerpt(err.Error()))
	case wrong.Field == "":
		return invalid("manifest is of the wrong type: a JSON object is expected, not: %s", excerpt(wrong.Value))
	}
	e := invalid("manifest has a value of the wrong type: %s: %s does not belong there", excerpt(wrong.Field), excerpt(wrong.Value))
	if odd(err) {
		e.Err = errOdd
	}
	return e
}

// odd reports whether decoding passed over nothing but a field that distribution
// does not read. json continues after a value of the wrong type, and reports the
// first.
func odd(err error) bool {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return false
	}
	key, _, _ := strings.Cut(wrong.Field, ".")
	return key == "artifactType" || key == "subject" || key == "annotations"
}

// maxExcerpt bounds the part of a client's input that is repeated to it, and in the log.
const maxExcerpt = 200

// excerpt is the begin of a text that may be of any length.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	return s[:maxExcerpt] + "…"
}
