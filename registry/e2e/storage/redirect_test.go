package storage

import (
	"net/http"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// redirected turns redirects on, which the tests' configurations for S3 have off.
const redirected = "REGISTRY_STORAGE_REDIRECT_DISABLE=false"

// fetchOnce sends a GET that follows no redirect, and closes the answer.
func fetchOnce(t testing.TB, url string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// layerReads counts the requests that read blobs.
func layerReads(requests []string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, "GET blobs/") {
			n++
		}
	}
	return n
}

// Clients get blobs from the store, by the address that is meant for them, or from here if
// redirects are off or not for them.
func TestS3_Redirect(t *testing.T) { redirect(t, s3test.VersityGW) }

func redirect(t *testing.T, start s3test.Start) {
	server, _ := harness.S3Bucket(t, start)
	public := newStoreCounter(t, server.URL())
	env := []string{
		"REGISTRY_STORAGE_S3_REDIRECTENDPOINT=" + public.URL, "REGISTRY_LOG_LEVEL=debug", "REGISTRY_LOG_ACCESSLOG_DISABLED=false",
	}
	replica := harness.StartOnS3(t, server.URL(), append(env, redirected)...)
	img := harness.NewImage(t, 71, 3, 40_000)
	harness.RunTool(t, "crane", "push", img.Layout(t, "v1"), replica.Addr+"/app:v1")

	for d, content := range img.Blobs {
		at := "http://" + replica.Addr + "/v2/app/blobs/" + d
		if d == img.Manifest {
			continue
		}
		resp := fetchOnce(t, at, nil)
		location := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusTemporaryRedirect || !strings.HasPrefix(location, public.URL+"/images/some/root/docker/registry/v2/blobs/") || resp.Header.Get("Docker-Content-Digest") != d {
			t.Fatalf("GET: %s to %s, %v", resp.Status, location, resp.Header)
		}
		resp, got := harness.Fetch(t, "GET", location, nil, nil)
		if resp.StatusCode != http.StatusOK || string(got) != string(content) || resp.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("GET from the store: %s, %d of %d bytes, %v", resp.Status, len(got), len(content), resp.Header)
		}
		resp, got = harness.Fetch(t, "GET", at, http.Header{"Range": {"bytes=2-4"}}, nil)
		if resp.StatusCode != http.StatusPartialContent || string(got) != string(content[2:5]) {
			t.Errorf("a range: %s %q", resp.Status, got)
		}
		resp, _ = harness.Fetch(t, "HEAD", at, nil, nil)
		if resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(content)) || resp.Request.URL.String() != at {
			t.Errorf("HEAD: %s, %d bytes from %s", resp.Status, resp.ContentLength, resp.Request.URL)
		}
	}
	unknown := "/v2/app/blobs/" + harness.DigestOf([]byte("nothing"))
	if resp := fetchOnce(t, "http://"+replica.Addr+unknown, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET of an unknown blob: %s", resp.Status)
	}

	pull := func(from *harness.Process) int {
		out := t.TempDir()
		n := layerReads(public.during(func() { harness.RunTool(t, "crane", "pull", "--format=oci", from.Addr+"/app:v1", out) }))
		img.SameLayout(t, out)
		return n
	}
	if n := pull(replica); n < 3 {
		t.Errorf("crane read %d blobs from the store, want 3 layers", n)
	}
	for name, more := range map[string]string{"off": "REGISTRY_STORAGE_REDIRECT_DISABLE=true", "excluded": "REGISTRY_STORAGE_REDIRECT_EXCLUDE=[127.0.0.0/8]"} {
		streams := harness.StartOnS3(t, server.URL(), append(env, redirected, more)...)
		if n := pull(streams); n != 0 {
			t.Errorf("%s: crane read %d blobs from the store", name, n)
		}
	}
	if out := replica.Output(); strings.Contains(out, "X-Amz-Signature") || !strings.Contains(out, " 307 ") {
		t.Errorf("the logs have a signed URL, or no redirect:\n%s", programtest.Tail(out))
	}
}
