package api

import (
	"encoding/json"
	"testing"

	"slipway/registry/internal/oci"
)

// What is written out must be what encoding/json writes.
func TestEnvelopeIsJSON(t *testing.T) {
	type one struct {
		Code    oci.Code `json:"code"`
		Message string   `json:"message"`
		Detail  any      `json:"detail,omitempty"`
	}
	details := []any{
		nil, "", "plain", `quote " and \ and </script>&`, "line\nbreak\x00\x7f", "grüße \u2028", "broken \xff",
		map[string]string{"tag": "v1"},
		[]int{1, 2},
		3,
	}
	var all oci.Errors
	for _, detail := range details {
		e := &oci.Error{Code: oci.CodeBlobUnknown, Message: "say \"no\"", Detail: detail}
		all = append(all, e, oci.NewError(oci.CodeManifestUnknown, detail))
	}
	for n := 1; n <= len(all); n++ {
		list := all[n-1 : n]
		if n == len(all) {
			list = all
		}
		var want struct {
			Errors []one `json:"errors"`
		}
		for _, e := range list {
			want.Errors = append(want.Errors, one{e.Code, e.Text(), e.Detail})
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendEnvelope(nil, list)); got != string(b)+"\n" {
			t.Errorf("got %q, want %q", got, b)
		}
	}
}

func TestEnvelopeWithoutAnImpossibleDetail(t *testing.T) {
	got := string(appendEnvelope(nil, oci.Errors{oci.NewError(oci.CodeUnknown, func() {})}))
	if want := `{"errors":[{"code":"UNKNOWN","message":"unknown error"}]}` + "\n"; got != want {
		t.Errorf("got %q", got)
	}
}
