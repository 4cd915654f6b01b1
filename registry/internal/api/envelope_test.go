package api

import (
	"testing"

	"slipway/registry/internal/oci"
)

func TestEnvelope(t *testing.T) {
	list := oci.Errors{oci.NewError(oci.CodeBlobUnknown, map[string]string{"digest": "x"}), oci.NewError(oci.CodeUnknown, nil)}
	want := `{"errors":[{"code":"BLOB_UNKNOWN","message":"blob unknown to registry","detail":{"digest":"x"}},{"code":"UNKNOWN","message":"unknown error"}]}` + "\n"
	if got := string(envelope(list)); got != want {
		t.Errorf("got %s", got)
	}
	got := string(envelope(oci.Errors{oci.NewError(oci.CodeUnknown, func() {})}))
	if want := `{"errors":[{"code":"UNKNOWN","message":"unknown error"}]}` + "\n"; got != want {
		t.Errorf("with a detail that isn't JSON: %s", got)
	}
}
