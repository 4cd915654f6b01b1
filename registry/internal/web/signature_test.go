package web

import (
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/signature"
)

func TestImage_ShowsThatItIsUnsigned(t *testing.T) {
	s := newSite(t, func(s *setup) {
		s.open = true
		s.pages.Signatures = signature.New([]signature.Rule{{Repositories: pattern.MustNames([]string{"signed/**"})}})
	})
	b := s.browser()
	for name, want := range map[oci.Name]string{"signed/app": ">unsigned<", "free/app": "-<dt>Signature<"} {
		s.image(name, "v1", nil, "layer")
		b.get("/ui/image/" + string(name) + ":v1")
		b.want(200, want)
	}
}
