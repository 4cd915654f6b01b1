package imagecopy

import (
	"context"
	"encoding/json"
	"io"
	"runtime/debug"
	"testing"

	"slipway/registry/internal/oci"
)

// chain is a repository of manifests, each of which refers to the one before.
type chain struct {
	bodies    map[oci.Digest][]byte
	referrers map[oci.Digest][]oci.Descriptor
	put       int
}

func (c *chain) Manifest(_ context.Context, d oci.Digest) ([]byte, error) { return c.bodies[d], nil }

func (c *chain) Blob(context.Context, oci.Digest) (io.ReadCloser, int64, error) {
	panic("the target has all blobs")
}

func (c *chain) Referrers(_ context.Context, subject oci.Digest) ([]oci.Descriptor, error) {
	return c.referrers[subject], nil
}

func (c *chain) HasBlob(context.Context, oci.Digest) (bool, error) { return true, nil }

func (c *chain) PutBlob(context.Context, oci.Digest, int64, io.Reader) (int64, error) {
	panic("the target has all blobs")
}

func (c *chain) PutManifest(context.Context, oci.Digest, *oci.Manifest, []byte, []oci.Tag) error {
	c.put++
	return nil
}

// A long chain of referrers takes no stack, of which a process has an end.
func TestCopy_ChainOfReferrers(t *testing.T) {
	const length = 5000
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	c := &chain{bodies: map[oci.Digest][]byte{}, referrers: map[oci.Digest][]oci.Descriptor{}}
	config := oci.Descriptor{MediaType: "application/vnd.oci.empty.v1+json", Digest: oci.SHA256.FromBytes([]byte("{}")), Size: 2}
	var first, last oci.Descriptor
	for i := range length {
		m := map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": []oci.Descriptor{config}}
		if i > 0 {
			m["subject"] = last
		}
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		next := oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: oci.SHA256.FromBytes(body), Size: int64(len(body))}
		c.bodies[next.Digest] = body
		if i == 0 {
			first = next
		} else {
			c.referrers[last.Digest] = []oci.Descriptor{next}
		}
		last = next
	}
	var report Report
	if found, err := New(c, c, false, &report).Copy(t.Context(), &first, []oci.Tag{"v1"}); !found || err != nil || c.put != length || report.Manifests != length {
		t.Errorf("%v, %v; %d of %d put, %+v", found, err, c.put, length, report)
	}
}
