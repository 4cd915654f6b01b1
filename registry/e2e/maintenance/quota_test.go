package maintenance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/e2e/harness"
)

// Two servers on one storage fill a quota to the last byte and no further. What does not
// fit is refused with a sentence, and what is deleted and collected makes room.
func TestQuota(t *testing.T) {
	t.Parallel()
	const size, room, pushes = 10_000, 10, 30
	img, root := harness.NewImage(t, 301, 2, 20_000), t.TempDir()
	imageSize, layerSize := 0, 0
	for _, b := range img.Blobs {
		imageSize += len(b)
		layerSize = max(layerSize, len(b))
	}
	quota := fmt.Sprintf("REGISTRY_SLIPWAY_QUOTAS=[{prefix: team, limit: %d}]", imageSize+room*size)
	servers := []*harness.Process{harness.StartRegistry(t, root, quota), harness.StartRegistry(t, root, quota)}
	img.Push(t, servers[0].Addr, "team/app", "v1")

	blob := func(i, size int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%09d\n", i), size/10) }
	wantDenied := func(size int, resp *http.Response, body []byte) {
		t.Helper()
		sentence := fmt.Sprintf("the quota of team does not allow %d bytes more", size)
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), `"DENIED"`) || !strings.Contains(string(body), sentence) {
			t.Errorf("got %s %s, want DENIED and %q", resp.Status, body, sentence)
		}
	}
	var taken atomic.Int32
	var all sync.WaitGroup
	for i := range pushes {
		all.Go(func() {
			repo := fmt.Sprint("team/", i%3)
			resp, body := uploadBlob(t, servers[i%2].Addr, repo, blob(i, size), nil)
			if resp.StatusCode != http.StatusCreated {
				wantDenied(size, resp, body)
				return
			}
			taken.Add(1)
		})
	}
	all.Wait()
	for i := range room { // uploads at the same time refuse each other
		if resp, _ := uploadBlob(t, servers[i%2].Addr, "team", blob(pushes+10+i, size), nil); resp.StatusCode == http.StatusCreated {
			taken.Add(1)
		}
	}
	// A count by one server may miss what the other is receiving.
	if n := taken.Load(); n < room || n > 2*room {
		t.Errorf("%d of %d blobs were taken, want %d", n, pushes, room)
	}
	for _, p := range servers {
		resp, body := uploadBlob(t, p.Addr, "team", blob(pushes, size), nil)
		wantDenied(size, resp, body)
		harness.PushBlob(t, p.Addr, "teams", harness.DigestOf(blob(pushes, size)), blob(pushes, size)) // another prefix
	}

	harness.DeleteReference(t, servers[1].Addr, "team/app", img.Manifest)
	resp, body := uploadBlob(t, servers[0].Addr, "team", blob(pushes, layerSize), nil)
	wantDenied(len(blob(pushes, layerSize)), resp, body) // its layers are there still
	harness.CollectGarbage(t, root, "--age", "0")
	harness.WantFreed(t, root, img)
	for i, p := range servers {
		harness.Eventually(t, "what was freed can be used", func() bool {
			resp, _ := uploadBlob(t, p.Addr, "team/new", blob(pushes+1+i, layerSize), nil)
			return resp.StatusCode == http.StatusCreated
		})
	}
}

// Unfinished uploads count, and a cancelled one gives its bytes back.
func TestQuota_UnfinishedUploads(t *testing.T) {
	t.Parallel()
	const limit, size = 5 << 20, 4 << 20
	root := t.TempDir()
	p := harness.StartRegistry(t, root, fmt.Sprintf("REGISTRY_SLIPWAY_QUOTAS=[{prefix: team, limit: %d}]", limit))
	blob := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	var uploads []string
	taken := 0
	for i := range 10 {
		resp, _ := harness.Fetch(t, "POST", "http://"+p.Addr+"/v2/team/a/blobs/uploads/", nil, nil)
		uploads = append(uploads, harness.AbsoluteURL(t, p.Addr, resp.Header.Get("Location")))
		src := io.Reader(bytes.NewReader(blob))
		if i%2 > 0 { // without Content-Length
			src = io.MultiReader(src)
		}
		resp, body := harness.Fetch(t, "PATCH", uploads[i], nil, src)
		switch {
		case resp.StatusCode == http.StatusAccepted:
			taken++
		case resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "the quota of team does not allow"):
			t.Errorf("upload %d: %s %s", i, resp.Status, body)
		}
	}
	if taken != 1 {
		t.Errorf("%d uploads were taken, want 1", taken)
	}
	stored := int64(0)
	files, err := filepath.Glob(root + "/docker/registry/v2/repositories/team/a/_uploads/*/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		stored += info.Size()
	}
	if stored < size || stored > limit {
		t.Errorf("%d bytes are on the disk", stored)
	}
	for _, location := range uploads {
		if resp, body := harness.Fetch(t, "DELETE", location, nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s %s", resp.Status, body)
		}
	}
	harness.PushBlob(t, p.Addr, "team/a", harness.DigestOf(blob), blob)
}

// A user and an address may do no more than their limit, whatever others do: the rest is
// answered with 429 and a sentence.
func TestLimits_Requests(t *testing.T) {
	t.Parallel()
	p := startLimited(t, "{user: {requests: 1, burst: 4}, address: {requests: 1, burst: 40}}")
	get := func(header http.Header) (*http.Response, string) {
		resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/a/tags/list", header, nil)
		return resp, string(body)
	}
	untilRefused := func(header http.Header, sentence string) {
		t.Helper()
		resp, body := get(header)
		for i := 0; i < 1000 && resp.StatusCode != http.StatusTooManyRequests; i++ { // time gives requests back
			resp, body = get(header)
		}
		if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, sentence) || !strings.Contains(body, "TOOMANYREQUESTS") || resp.Header.Get("Retry-After") == "" {
			t.Errorf("got %s %s %v, want 429 and %q", resp.Status, body, resp.Header, sentence)
		}
	}
	wantServed := func(what string, header http.Header) {
		t.Helper()
		if resp, body := get(header); resp.StatusCode == http.StatusTooManyRequests {
			t.Errorf("%s: %s", what, body)
		}
	}
	untilRefused(from("192.0.2.1", "alice"), "one user may have 1 request a second")
	wantServed("another user of the same address", from("192.0.2.1", "bob"))
	untilRefused(from("192.0.2.1", ""), "one address may have 1 request a second")
	wantServed("another address", from("192.0.2.2", "carl"))
	harness.Eventually(t, "the user has requests again", func() bool {
		resp, _ := get(from("192.0.2.3", "alice"))
		return resp.StatusCode != http.StatusTooManyRequests
	})
}

// Uploads at the same time are counted for the user and for the address.
func TestLimits_Uploads(t *testing.T) {
	t.Parallel()
	p := startLimited(t, "{user: {uploads: 1}, address: {uploads: 2}}")
	begin := func(header http.Header) (location string, status int, body string) {
		resp, b := harness.Fetch(t, "POST", "http://"+p.Addr+"/v2/a/blobs/uploads/", header, nil)
		return harness.AbsoluteURL(t, p.Addr, resp.Header.Get("Location")), resp.StatusCode, string(b)
	}
	// slow sends a blob whose end comes when end is called, which returns the status. It returns once the upload is counted:
	// the next question would otherwise be the one upload, and this one refused.
	slow := func(header http.Header) (end func() int) {
		location, status, body := begin(header)
		if status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
		reader, writer := io.Pipe()
		done, counted := make(chan int, 1), make(chan struct{})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(counted) }})
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "PATCH", location, reader)
			req.Header = header.Clone()
			req.Header.Set("Expect", "100-continue") // the server answers it when it reads the body
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			resp.Body.Close()
			done <- resp.StatusCode
		}()
		select {
		case <-counted:
		case status := <-done:
			t.Fatalf("the upload ends at once with %d", status)
		}
		return func() int {
			writer.Close()
			return <-done
		}
	}
	untilRefused := func(header http.Header, sentence string) {
		t.Helper()
		harness.Eventually(t, sentence, func() bool {
			_, status, body := begin(header)
			return status == http.StatusTooManyRequests && strings.Contains(body, sentence)
		})
	}
	endAlice := slow(from("192.0.2.1", "alice"))
	untilRefused(from("192.0.2.9", "alice"), "one user may have 1 upload at the same time")
	endBob := slow(from("192.0.2.1", "bob"))
	untilRefused(from("192.0.2.1", "carl"), "one address may have 2 uploads at the same time")
	if resp, _ := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/", from("192.0.2.1", "carl"), nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a read beside the uploads: %s", resp.Status)
	}
	if resp, body := uploadBlob(t, p.Addr, "a", []byte("blob"), from("192.0.2.2", "carl")); resp.StatusCode != http.StatusCreated {
		t.Errorf("another user of another address: %s %s", resp.Status, body)
	}
	for name, end := range map[string]func() int{"alice": endAlice, "bob": endBob} {
		if status := end(); status != http.StatusAccepted {
			t.Errorf("the upload of %s: %d", name, status)
		}
	}
	harness.Eventually(t, "the user may upload again", func() bool {
		resp, _ := uploadBlob(t, p.Addr, "a", []byte("another"), from("192.0.2.1", "alice"))
		return resp.StatusCode == http.StatusCreated
	})
}

// startLimited starts a server with limits that lets in alice, bob and carl, whose requests
// come through a proxy.
func startLimited(t *testing.T, limits string) *harness.Process {
	t.Helper()
	root := t.TempDir()
	users := root + "/users"
	var lines strings.Builder
	for _, user := range []string{"alice", "bob", "carl"} {
		lines.WriteString(harness.HashLine(t, user, "secret"))
	}
	harness.WriteFile(t, users, []byte(lines.String()))
	return harness.StartRegistry(t, root+"/registry", "REGISTRY_SLIPWAY_LIMITS="+limits, "REGISTRY_HTTP_TRUSTEDPROXIES=[127.0.0.0/8]",
		"REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH="+users)
}

// from is the header of a user's request from an address; "" is nobody.
func from(address, user string) http.Header {
	header := http.Header{}
	if user != "" {
		header = harness.BasicAuth(user, "secret")
	}
	header.Set("X-Forwarded-For", address)
	return header
}

// uploadBlob tries to push a blob.
func uploadBlob(t testing.TB, addr, repo string, b []byte, header http.Header) (*http.Response, []byte) {
	t.Helper()
	resp, body := harness.Fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", header, nil)
	if resp.StatusCode != http.StatusAccepted {
		return resp, body
	}
	return harness.Fetch(t, "PUT", harness.WithQuery(t, harness.AbsoluteURL(t, addr, resp.Header.Get("Location")), "digest", harness.DigestOf(b)), header, bytes.NewReader(b))
}
