package oci

import (
	"fmt"
	"slices"
	"testing"
)

func TestReadReferences(t *testing.T) {
	a, b, c, s := SHA256.FromBytes([]byte("a")), SHA256.FromBytes([]byte("b")), SHA512.FromBytes([]byte("c")), SHA256.FromBytes([]byte("s"))
	tests := []struct {
		name, body string
		want       References
	}{
		{"manifest", fmt.Sprintf(`{"config":{"digest":%q},"layers":[{"digest":%q},{"digest":%q}]}`, a, b, c), References{Needed: []Digest{a, b, c}}},
		{"index", fmt.Sprintf(`{"manifests":[{"digest":%q}],"subject":{"digest":%q}}`, a, s), References{Needed: []Digest{a}, Subject: s}},
		{"both at once", fmt.Sprintf(`{"config":{"digest":%q},"manifests":[{"digest":%q}]}`, a, b), References{Needed: []Digest{a, b}}},
		{"schema 1", fmt.Sprintf(`{"schemaVersion":1,"fsLayers":[{"blobSum":%q},{"blobSum":%q}]}`, a, b), References{Needed: []Digest{a, b}}},
		{"artifact", fmt.Sprintf(`{"blobs":[{"digest":%q}],"subject":{"digest":%q}}`, a, s), References{Needed: []Digest{a}, Subject: s}},
		{
			"foreign layer",
			fmt.Sprintf(`{"layers":[{"mediaType":"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip","digest":%q,"urls":["https://x.y/z"]}]}`, a),
			References{Elsewhere: []Digest{a}},
		},
		{"no digests", `{"config":{"digest":"x"},"layers":[{}],"subject":{"digest":"sha256:../.."}}`, References{}},
	}
	for _, tt := range tests {
		got, err := ReadReferences([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !slices.Equal(got.Needed, tt.want.Needed) || !slices.Equal(got.Elsewhere, tt.want.Elsewhere) || got.Subject != tt.want.Subject {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
	for _, body := range []string{"", "[]", "{", "\x00", `{"layers":7}`} {
		if _, err := ReadReferences([]byte(body)); err == nil {
			t.Errorf("%q is read", body)
		}
	}
}
