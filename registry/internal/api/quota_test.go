package api

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
)

// A push over the quota is answered with 403, a mount too: the upload instead of it would
// be refused.
func TestQuota_Answers(t *testing.T) {
	s := newServer(t, func(s *setup) {
		all := quota.New(s.store, []quota.Quota{{Prefix: "team", Limit: 130}}, zap.NewNop())
		t.Cleanup(all.Close)
		s.rules.Quota = all
	})
	push := func(repo string, blob []byte) answer {
		up := s.do("POST", "/v2/"+repo+"/blobs/uploads/", nil).want(t, 202)
		return s.do("PUT", with(up.location(t), "digest", string(digestOf(blob))), blob)
	}
	small, large := []byte(strings.Repeat("s", 60)), []byte(strings.Repeat("l", 131))
	push("team/a", small).want(t, 201)
	push("elsewhere", large).want(t, 201)
	mount := func(repo string, blob []byte, from string) answer {
		return s.do("POST", "/v2/"+repo+"/blobs/uploads/?mount="+string(digestOf(blob))+"&from="+from, nil)
	}
	for what, refused := range map[string]answer{"push": push("team/a", large), "mount": mount("team/b", large, "elsewhere")} {
		refused.wantError(t, 403, oci.CodeDenied)
		if !strings.Contains(string(refused.body), "the quota of team does not allow 131 B more: 60 B of 130 B are used") {
			t.Errorf("%s: %s", what, refused.body)
		}
	}
	mount("team/b", small, "team/a").want(t, 201)
	mount("other", large, "elsewhere").want(t, 201)
}
