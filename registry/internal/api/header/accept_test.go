package header

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
		accept Accepted
		stored string
		byTag  bool
		want   Verdict
	}{
		{nil, ociM, true, Serve},
		{Accepted{"*/*"}, ociM, true, Serve},
		{Accepted{"text/html, */*;q=0.1"}, docL, true, Serve},
		{Accepted{"application/*"}, ociM, true, Serve},
		{Accepted{docM + ", " + ociM}, ociM, true, Serve},
		{Accepted{docM, ociM + "; q=0.5"}, ociM, true, Serve},
		{Accepted{"Application/VND.oci.image.manifest.v1+json"}, ociM, true, Serve},
		{Accepted{docM}, ociM, true, RefuseOCI},
		{Accepted{docM}, ociM, false, RefuseOCI},
		{Accepted{docM}, ociI, true, Serve},
		{Accepted{ociM}, docM, true, Serve},
		{Accepted{docL}, docL, true, Serve},
		{Accepted{docM}, docL, true, ServeChild},
		{Accepted{docM}, docL, false, Serve},
		{Accepted{ociI}, docL, true, ServeChild},
		{Accepted{ociM}, docL, false, Serve},
		{Accepted{docM}, "application/vnd.docker.distribution.manifest.v1+prettyjws", true, Serve},
	} {
		if got := c.accept.Judge(c.stored, c.byTag); got != c.want {
			t.Errorf("%q of %s by tag %v: %d, want %d", c.accept, c.stored, c.byTag, got, c.want)
		}
	}
}
