package clients

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// Behind a reverse proxy that ends TLS the URLs that clients are sent to are the proxy's.
func TestNginx_Locations(t *testing.T) {
	f := harness.StartNginx(t, harness.StartRegistry(t, t.TempDir()).Addr)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.Roots(t)}}}
	for _, query := range []string{"", "?digest=" + harness.EmptyDigest} {
		resp, err := client.Post("https://"+f.Addr+"/v2/where/blobs/uploads/"+query, "application/octet-stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://"+f.Addr+"/v2/where/blobs/") {
			t.Errorf("POST %s: %s, Location %q, want it at https://%s", query, resp.Status, at, f.Addr)
		}
	}
}
