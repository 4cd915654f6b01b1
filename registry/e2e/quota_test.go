package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Two servers on one storage fill a quota to the last byte and no further. What does not
// fit is refused with a sentence, and what is deleted and collected makes room.
func TestQuota(t *testing.T) {
	t.Parallel()
	const size, room, pushes = 10_000, 10, 30
	img, root := newImage(t, 301, 2, 20_000), t.TempDir()
	imageSize, layerSize := 0, 0
	for _, b := range img.blobs {
		imageSize += len(b)
		layerSize = max(layerSize, len(b))
	}
	quota := fmt.Sprintf("REGISTRY_SLIPWAY_QUOTAS=[{prefix: team, limit: %d}]", imageSize+room*size)
	servers := []*process{startSlipway(t, root, quota), startSlipway(t, root, quota)}
	img.push(t, servers[0].addr, "team/app", "v1")

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
			resp, body := uploadBlob(t, servers[i%2].addr, repo, blob(i, size), nil)
			if resp.StatusCode != http.StatusCreated {
				wantDenied(size, resp, body)
				return
			}
			taken.Add(1)
			pushBlob(t, servers[(i+1)%2].addr, repo, digestOf(blob(i, size)), blob(i, size)) // takes no more room
		})
	}
	all.Wait()
	if n := taken.Load(); n != room {
		t.Errorf("%d of %d blobs were taken, want %d", n, pushes, room)
	}
	for _, p := range servers {
		resp, body := uploadBlob(t, p.addr, "team", blob(pushes, size), nil)
		wantDenied(size, resp, body)
		pushBlob(t, p.addr, "teams", digestOf(blob(pushes, size)), blob(pushes, size)) // another prefix
	}

	deleteReference(t, servers[1].addr, "team/app", img.manifest)
	resp, body := uploadBlob(t, servers[0].addr, "team", blob(pushes, layerSize), nil)
	wantDenied(len(blob(pushes, layerSize)), resp, body) // its layers are there still
	collectGarbage(t, root)
	wantOnDisk(t, root, img, false)
	for i, p := range servers {
		eventually(t, "what was freed can be used", func() bool {
			resp, _ := uploadBlob(t, p.addr, "team/new", blob(pushes+1+i, layerSize), nil)
			return resp.StatusCode == http.StatusCreated
		})
	}
}

// A user and an address may do so much and no more, whatever others do: what is above is
// answered with 429 and a sentence.
func TestLimits_Requests(t *testing.T) {
	t.Parallel()
	p := startLimited(t, "{user: {requests: 1, burst: 4}, address: {requests: 1, burst: 40}}")
	get := func(header http.Header) (*http.Response, string) {
		resp, body := fetch(t, "GET", "http://"+p.addr+"/v2/a/tags/list", header, nil)
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
	eventually(t, "the user has requests again", func() bool {
		resp, _ := get(from("192.0.2.3", "alice"))
		return resp.StatusCode != http.StatusTooManyRequests
	})
}

// Uploads at the same time are counted for the user and for the address.
func TestLimits_Uploads(t *testing.T) {
	t.Parallel()
	p := startLimited(t, "{user: {uploads: 1}, address: {uploads: 2}}")
	begin := func(header http.Header) (location string, status int, body string) {
		resp, b := fetch(t, "POST", "http://"+p.addr+"/v2/a/blobs/uploads/", header, nil)
		return absolute(t, p.addr, resp.Header.Get("Location")), resp.StatusCode, string(b)
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
		eventually(t, sentence, func() bool {
			_, status, body := begin(header)
			return status == http.StatusTooManyRequests && strings.Contains(body, sentence)
		})
	}
	endAlice := slow(from("192.0.2.1", "alice"))
	untilRefused(from("192.0.2.9", "alice"), "one user may have 1 upload at the same time")
	endBob := slow(from("192.0.2.1", "bob"))
	untilRefused(from("192.0.2.1", "carl"), "one address may have 2 uploads at the same time")
	if resp, _ := fetch(t, "GET", "http://"+p.addr+"/v2/", from("192.0.2.1", "carl"), nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a read beside the uploads: %s", resp.Status)
	}
	if resp, body := uploadBlob(t, p.addr, "a", []byte("blob"), from("192.0.2.2", "carl")); resp.StatusCode != http.StatusCreated {
		t.Errorf("another user of another address: %s %s", resp.Status, body)
	}
	for name, end := range map[string]func() int{"alice": endAlice, "bob": endBob} {
		if status := end(); status != http.StatusAccepted {
			t.Errorf("the upload of %s: %d", name, status)
		}
	}
	eventually(t, "the user may upload again", func() bool {
		resp, _ := uploadBlob(t, p.addr, "a", []byte("another"), from("192.0.2.1", "alice"))
		return resp.StatusCode == http.StatusCreated
	})
}

// startLimited starts a server with limits that lets in alice, bob and carl, whose requests
// come through a proxy.
func startLimited(t *testing.T, limits string) *process {
	t.Helper()
	root := t.TempDir()
	users := root + "/users"
	var lines strings.Builder
	for _, user := range []string{"alice", "bob", "carl"} {
		lines.WriteString(hashLine(t, user, "secret"))
	}
	writeFile(t, users, []byte(lines.String()))
	return startSlipway(t, root+"/registry", "REGISTRY_SLIPWAY_LIMITS="+limits, "REGISTRY_HTTP_TRUSTEDPROXIES=[127.0.0.0/8]",
		"REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH="+users)
}

// from is the header of a user's request from an address; "" is nobody.
func from(address, user string) http.Header {
	header := http.Header{}
	if user != "" {
		header = basicAuth(user, "secret")
	}
	header.Set("X-Forwarded-For", address)
	return header
}

// uploadBlob tries to push a blob.
func uploadBlob(t testing.TB, addr, repo string, b []byte, header http.Header) (*http.Response, []byte) {
	t.Helper()
	resp, body := fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", header, nil)
	if resp.StatusCode != http.StatusAccepted {
		return resp, body
	}
	return fetch(t, "PUT", withQuery(t, absolute(t, addr, resp.Header.Get("Location")), "digest", digestOf(b)), header, bytes.NewReader(b))
}
