package layout

import (
	"testing"

	"slipway/registry/internal/oci"
)

// FuzzParseLink checks that whatever a link file holds, what comes out is a
// digest that is safe in a path.
func FuzzParseLink(f *testing.F) {
	f.Add([]byte(dgst))
	f.Add([]byte(string(dgst) + "\n"))
	f.Add([]byte("sha256:../../x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseLink(b)
		if err != nil {
			return
		}
		if again, err := oci.ParseDigest(string(d)); err != nil || again != d {
			t.Errorf("ParseLink(%q) = %q, which is no digest: %v", b, d, err)
		}
		if got, err := ParseLink(Link(d)); err != nil || got != d {
			t.Errorf("the link to %q reads as %q, %v", d, got, err)
		}
	})
}
