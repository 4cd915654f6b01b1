package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// BenchmarkManifest_Token is the rate of GET of a manifest over a real connection, with a
// token of the built-in service and without authentication.
func BenchmarkManifest_Token(b *testing.B) {
	store := memory.New()
	rules, err := access.New(nil, []access.Rule{
		{Who: []string{"robot:ci"}, Repositories: []string{"team/**"}, Allow: []string{"push"}},
		{Who: []string{"alice"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
		{Who: []string{"anyone"}, Repositories: []string{"library/**"}, Allow: []string{"pull"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	current := func() *access.Rules { return rules }
	keys, err := keyring.Open(b.Context(), store, time.Hour, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	service := auth.NewService(auth.ServiceOptions{Rules: current, Logins: &auth.Logins{}, Keys: keys, Service: "registry", Lifetime: time.Hour, RefreshLifetime: time.Hour})
	reg := registry.New(registry.Options{Store: store})
	if _, err := reg.Repository("library/alpine").PutManifest(b.Context(), oci.Reference{Tag: "latest"}, oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"manifests":[]}`), nil); err != nil {
		b.Fatal(err)
	}
	issued, err := service.Issue(httptest.NewRequest(http.MethodGet, "/", nil), auth.TokenRequest{Scopes: []string{"repository:library/alpine:pull"}})
	if err != nil {
		b.Fatal(err)
	}
	for name, decide := range map[string]Authorizer{"open": nil, "token": auth.NewAuthorizer(auth.Options{Rules: current, Logins: &auth.Logins{}, Tokens: service})} {
		b.Run(name, func(b *testing.B) {
			a, err := New(Options{Registry: reg, Auth: decide, Log: zap.NewNop(), Secret: []byte("s")})
			if err != nil {
				b.Fatal(err)
			}
			server := httptest.NewServer(a)
			defer server.Close()
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/v2/library/alpine/manifests/latest", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Accept", oci.MediaTypeIndex)
			if decide != nil {
				r.Header.Set("Authorization", "Bearer "+issued.Token)
			}
			for b.Loop() {
				resp, err := server.Client().Do(r)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
