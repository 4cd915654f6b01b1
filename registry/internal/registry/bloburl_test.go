package registry

import (
	"context"
	"net/netip"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

type keySigner struct{}

func (keySigner) SignedURL(_ context.Context, key, _ string, client netip.Addr) (string, error) {
	return "signed:" + key + " for " + client.String(), nil
}

// The store is asked for blobs of the repository, not for those of others.
func TestBlobURL(t *testing.T) {
	ctx, client := t.Context(), netip.MustParseAddr("192.0.2.1")
	reg := newRegistry(memory.New(), Options{Signer: keySigner{}})
	pushImage(t, reg.Repository("local"), "v1", "x")
	d := sum("layer x")
	url, desc, err := reg.Repository("local").BlobURL(ctx, d, client)
	check(t, err)
	if want := "signed:" + layout.BlobData(d) + " for 192.0.2.1"; url != want || desc.Digest != d || desc.Size != int64(len("layer x")) {
		t.Errorf("%q, %+v, want %q", url, desc, want)
	}
	_, _, err = reg.Repository("local").BlobURL(ctx, sum("nothing"), client)
	wantCode(t, err, oci.CodeBlobUnknown)
	_, _, err = reg.Repository("other").BlobURL(ctx, d, client)
	wantCode(t, err, oci.CodeBlobUnknown)
	url, _, err = newRegistry(memory.New(), Options{}).Repository("local").BlobURL(ctx, d, client)
	check(t, err)
	if url != "" {
		t.Errorf("a store without URLs gives %q", url)
	}
}
