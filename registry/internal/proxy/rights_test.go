package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

// underRules allows each caller what the rules allow anyone. It returns the audit log.
func (w *world) underRules(list ...access.Rule) (acts *bytes.Buffer) {
	w.t.Helper()
	acts = &bytes.Buffer{}
	rules, err := access.New(nil, list)
	check(w.t, err)
	rules = rules.WithTwins(w.cache.Twin)
	handler, err := api.New(api.Options{
		Registry: w.reg, Proxy: w.cache, DeleteEnabled: true, Log: nopLog, Auth: auth.NewAuthorizer(auth.Options{Rules: func() *access.Rules { return rules }}),
		Audit: audit.New(nopLog, audit.Unclosed{Writer: acts}),
	})
	check(w.t, err)
	server := httptest.NewServer(handler)
	w.t.Cleanup(server.Close)
	w.url = server.URL
	return acts
}

func anyone(repository, verb string, rights ...string) access.Rule {
	rule := access.Rule{Who: []string{"anyone"}, Repositories: []string{repository}}
	if verb == "deny" {
		rule.Deny = rights
	} else {
		rule.Allow = rights
	}
	return rule
}

// Rules hold for caches as for all else, by whichever of its names an image is asked for,
// and of what is refused the upstream hears nothing.
func TestRules_OfCaches(t *testing.T) {
	for name, tt := range map[string]struct {
		rules              []access.Rule
		allowed, forbidden []string // repositories
	}{
		"the short name is denied":  {[]access.Rule{anyone("hub/alpine", "deny", "pull"), anyone("hub/**", "allow", "pull", "list")}, []string{"hub/team/app"}, []string{"hub/alpine", "hub/library/alpine"}},
		"the long name is denied":   {[]access.Rule{anyone("hub/library/*", "deny", "pull"), anyone("hub/**", "allow", "pull", "list")}, []string{"hub/team/app"}, []string{"hub/alpine", "hub/library/alpine"}},
		"the short name is allowed": {[]access.Rule{anyone("hub/alpine", "allow", "pull", "list")}, []string{"hub/alpine", "hub/library/alpine"}, []string{"hub/team/app"}},
		"the long name is allowed":  {[]access.Rule{anyone("hub/library/**", "allow", "pull", "list")}, []string{"hub/alpine", "hub/library/alpine"}, []string{"hub/team/app"}},
	} {
		for _, cached := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.Library = true })
				layers := map[string][]byte{"library/alpine": noise(61, 1000), "team/app": noise(62, 1000)}
				digests := map[string]oci.Digest{}
				for repository, layer := range layers {
					digests[repository] = w.push(oci.Name(repository), "v1", layer).Digest
				}
				paths := func(repository string) []string {
					at, _ := strings.CutPrefix(repository, "hub/")
					if !strings.Contains(at, "/") {
						at = "library/" + at
					}
					blob := string(oci.SHA256.FromBytes(layers[at]))
					list := []string{"manifests/v1", "manifests/" + string(digests[at]), "blobs/" + blob, "tags/list", "referrers/" + string(digests[at])}
					for i, path := range list {
						list[i] = "/v2/" + repository + "/" + path
					}
					return append(list, "/v2/"+at+"/manifests/v1?ns=docker.io", "/v2/"+at+"/blobs/"+blob+"?ns=docker.io", "/v2/"+at+"/tags/list?ns=docker.io")
				}
				if cached {
					for _, repository := range append(tt.allowed, tt.forbidden...) {
						for _, path := range paths(repository) {
							if resp, body := w.get(path); resp.StatusCode != http.StatusOK {
								t.Fatalf("without rules, %s: %s %s", path, resp.Status, body)
							}
						}
					}
				}
				w.underRules(append(tt.rules, anyone("mine", "allow", "push"))...)
				w.front.requests("")
				for _, repository := range tt.forbidden {
					for _, path := range paths(repository) {
						for _, method := range []string{http.MethodGet, http.MethodHead} {
							resp, body, err := w.try(method, path)
							check(t, err)
							if resp.StatusCode != http.StatusForbidden || method == http.MethodGet && code(body) != oci.CodeDenied {
								t.Errorf("%s %s: %s %s", method, path, resp.Status, body)
							}
						}
					}
					path := paths(repository)[2]
					resp, body, err := w.try(http.MethodPost, "/v2/mine/blobs/uploads/?from="+repository+"&mount="+path[strings.LastIndex(path, "/")+1:])
					check(t, err)
					if resp.StatusCode != http.StatusAccepted {
						t.Errorf("mount from %s: %s %s", repository, resp.Status, body)
					}
				}
				if n := w.front.requests(""); n != 0 {
					t.Errorf("the upstream was asked %d times for what is refused", n)
				}
				for _, repository := range tt.allowed {
					for _, path := range paths(repository) {
						if resp, body := w.get(path); resp.StatusCode != http.StatusOK {
							t.Errorf("%s: %s %s", path, resp.Status, body)
						}
					}
				}
				_, body := w.get("/v2/_catalog")
				var page struct{ Repositories []string }
				check(t, json.Unmarshal(body, &page))
				slices.Sort(tt.allowed)
				if !slices.Equal(page.Repositories, tt.allowed) {
					t.Errorf("the catalog shows %q, want %q", page.Repositories, tt.allowed)
				}
			})
		}
	}
}

// The second meaning of a name with a namespace is a guess: that the caller may not pull it is no refusal, and says nothing of
// the image that was asked for.
func TestRules_SecondMeaning(t *testing.T) {
	w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) {
		s.Namespaces = []string{"docker.io"}
	})
	acts := w.underRules(anyone("hub/hub/**", "deny", "pull"), anyone("hub/**", "allow", "pull"))
	resp, body := w.get("/v2/hub/none/manifests/v1?ns=docker.io")
	if resp.StatusCode != http.StatusNotFound || code(body) != oci.CodeManifestUnknown || acts.Len() > 0 {
		t.Errorf("%s %s; audit log: %s", resp.Status, body, acts)
	}
}
