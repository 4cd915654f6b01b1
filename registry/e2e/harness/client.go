package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// ListTags lists the tags of a repository, sorted and joined by spaces.
func ListTags(t testing.TB, addr, repo string) string {
	t.Helper()
	resp, body := Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/tags/list", nil, nil)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("tags/list of %s: %s %s", repo, resp.Status, body)
	}
	return JoinTags(t, body)
}

// DeleteReference deletes a manifest by its tag or digest.
func DeleteReference(t testing.TB, addr, repo, ref string) {
	t.Helper()
	if resp, body := Fetch(t, "DELETE", "http://"+addr+"/v2/"+repo+"/manifests/"+ref, nil, nil); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("DELETE %s: %s %s", ref, resp.Status, body)
	}
}

// AcceptAll has a registry answer with any manifest.
var AcceptAll = http.Header{"Accept": {TypeManifest, TypeIndex, TypeDockerManifest, typeDockerList}}

// PushBlob uploads a blob with a POST and a PUT.
func PushBlob(t testing.TB, addr, repo, digest string, b []byte) {
	t.Helper()
	resp, body := Fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", nil, nil)
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("POST upload: %s %s", resp.Status, body)
	}
	location := AbsoluteURL(t, addr, resp.Header.Get("Location"))
	resp, body = Fetch(t, "PUT", WithQuery(t, location, "digest", digest), nil, bytes.NewReader(b))
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("PUT blob: %s %s", resp.Status, body)
	}
}

// PushManifest puts a manifest under a tag or its digest, with the media type that it names.
func PushManifest(t testing.TB, addr, repo, ref string, b []byte) {
	t.Helper()
	var m struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	resp, body := Fetch(t, "PUT", "http://"+addr+"/v2/"+repo+"/manifests/"+ref, http.Header{"Content-Type": {m.MediaType}}, bytes.NewReader(b))
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("PUT manifest %s: %s %s", ref, resp.Status, body)
	}
}

// AbsoluteURL resolves a Location header that came from addr. A login in addr, name:password@host:port,
// stays in the URL.
func AbsoluteURL(t testing.TB, addr, location string) string {
	t.Helper()
	base, err := url.Parse("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	u, err := base.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	u.User = base.User
	return u.String()
}

// WithQuery sets a parameter of a URL.
func WithQuery(t testing.TB, rawURL, key, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// JoinTags reads a tag list, sorted, joined by spaces.
func JoinTags(t testing.TB, body []byte) string {
	t.Helper()
	var list struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("tag list: %v in %s", err, body)
	}
	slices.Sort(list.Tags)
	return strings.Join(list.Tags, " ")
}

// Fetch does one request and returns status, headers and body.
func Fetch(t testing.TB, method, url string, header http.Header, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

// BasicAuth returns the header of a login by password.
func BasicAuth(user, password string) http.Header {
	req := http.Request{Header: http.Header{}}
	req.SetBasicAuth(user, password)
	return req.Header
}

// Bearer returns the header of a request with a token.
func Bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
