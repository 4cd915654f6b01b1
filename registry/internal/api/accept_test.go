package api

import (
	"testing"

	"slipway/registry/internal/oci"
)

func TestJudgeAccept(t *testing.T) {
	const (
		ociM, ociI = oci.MediaTypeManifest, oci.MediaTypeIndex
		docM, docL = oci.MediaTypeDockerManifest, oci.MediaTypeDockerList
	)
	for _, c := range []struct {
		accept accepted
		stored string
		byTag  bool
		want   verdict
	}{
		{nil, ociM, true, serve},
		{accepted{"*/*"}, ociM, true, serve},
		{accepted{"text/html, */*;q=0.1"}, docL, true, serve},
		{accepted{"application/*"}, ociM, true, serve},
		{accepted{docM + ", " + ociM}, ociM, true, serve},
		{accepted{docM, ociM + "; q=0.5"}, ociM, true, serve},
		{accepted{"Application/VND.oci.image.manifest.v1+json"}, ociM, true, serve},
		{accepted{docM}, ociM, true, refuseOCI},
		{accepted{docM}, ociM, false, refuseOCI},
		{accepted{docM}, ociI, true, serve},
		{accepted{ociM}, docM, true, serve},
		{accepted{docL}, docL, true, serve},
		{accepted{docM}, docL, true, serveChild},
		{accepted{docM}, docL, false, serve},
		{accepted{ociM}, docL, true, refuseSchema2},
		{accepted{ociM}, docL, false, serve},
		{accepted{docM}, "application/vnd.docker.distribution.manifest.v1+prettyjws", true, serve},
	} {
		if got := c.accept.judge(c.stored, c.byTag); got != c.want {
			t.Errorf("%q of %s by tag %v: %d, want %d", c.accept, c.stored, c.byTag, got, c.want)
		}
	}
}
