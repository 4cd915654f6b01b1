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

// The store is asked for blobs of the repository, not for those of others or of caches.
func TestBlobURL(t *testing.T) {
	ctx, up, client := t.Context(), &upstreamStub{}, netip.MustParseAddr("192.0.2.1")
	reg := newRegistry(memory.New(), Options{Upstream: up, Signer: keySigner{}})
	pushImage(t, reg.Repository("local"), "v1", "x")
	pushImage(t, reg.Cached("hub/a"), "v1", "x")
	d := sum("layer x")
	url, desc, err := reg.Repository("local").BlobURL(ctx, d, client)
	check(t, err)
	if want := "signed:" + layout.BlobData(d) + " for 192.0.2.1"; url != want || desc.Digest != d || desc.Size != int64(len("layer x")) {
		t.Errorf("%q, %+v, want %q", url, desc, want)
	}
	url, _, err = reg.Repository("hub/a").BlobURL(ctx, d, client)
	check(t, err)
	if url != "" || len(up.asked) != 0 {
		t.Errorf("a cache gives %q, and asked for %v", url, up.asked)
	}
	_, _, err = reg.Repository("local").BlobURL(ctx, sum("nothing"), client)
	wantCode(t, err, oci.CodeBlobUnknown)
	_, _, err = reg.Repository("other").BlobURL(ctx, d, client)
	wantCode(t, err, oci.CodeNameUnknown)
	url, _, err = newRegistry(memory.New(), Options{}).Repository("local").BlobURL(ctx, d, client)
	check(t, err)
	if url != "" {
		t.Errorf("a store without URLs gives %q", url)
	}
}
