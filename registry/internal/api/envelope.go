package api

import (
	"encoding/json"
	"strings"

	"slipway/registry/internal/oci"
)

// envelopeSize is enough for one error with a digest in its detail.
const envelopeSize = 256

// appendEnvelope appends the body of every error (distribution-spec "Error
// Codes") and a newline. It is written out here because a busy client's HEAD
// for what is missing is answered with one each time. A detail that is no JSON
// value is left out.
func appendEnvelope(b []byte, list oci.Errors) []byte {
	b = append(b, `{"errors":[`...)
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(append(b, `{"code":`...), string(e.Code))
		b = appendJSON(append(b, `,"message":`...), e.Text())
		b = append(appendDetail(b, e.Detail), '}')
	}
	return append(b, "]}\n"...)
}

func appendDetail(b []byte, detail any) []byte {
	const key = `,"detail":`
	switch d := detail.(type) {
	case nil:
		return b
	case string:
		return appendJSON(append(b, key...), d)
	}
	if value, err := json.Marshal(detail); err == nil {
		b = append(append(b, key...), value...)
	}
	return b
}

// appendJSON appends a string as JSON. Nearly all need no escapes.
func appendJSON(b []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
	if strings.ContainsFunc(s, special) {
		value, _ := json.Marshal(s) //nolint:errcheck // strings never fail
		return append(b, value...)
	}
	return append(append(append(b, '"'), s...), '"')
}
