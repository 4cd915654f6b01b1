package api

import (
	"encoding/json"

	"slipway/registry/internal/oci"
)

// errorBody is the body of every error (distribution-spec "Error Codes").
type errorBody struct {
	Errors []errorEntry `json:"errors"`
}

type errorEntry struct {
	Code    oci.Code `json:"code"`
	Message string   `json:"message"`
	Detail  any      `json:"detail,omitempty"`
}

// envelope returns the body for a list of errors. A detail that can't be JSON is left out.
func envelope(list oci.Errors) []byte {
	body := errorBody{Errors: make([]errorEntry, len(list))}
	for i, e := range list {
		body.Errors[i] = errorEntry{e.Code, e.Text(), e.Detail}
	}
	b, err := json.Marshal(&body)
	if err != nil {
		for i := range body.Errors {
			body.Errors[i].Detail = nil
		}
		b, _ = json.Marshal(&body) //nolint:errcheck // strings never fail
	}
	return append(b, '\n')
}
