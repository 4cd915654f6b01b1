package migration

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// A volume goes to distribution and back, while both serve it.
func TestExchangeWithDistribution(t *testing.T) { exchangeWith(t, harness.Distribution2) }

func exchangeWith(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	harness.Exchange(t, harness.StartRegistry(t, root).Addr, harness.StartPeer(t, peer.Tool, root).Addr, "exchange", 11)
}

// During a change-over both write the same repository; nothing of either is
// lost, and each sees what the other did.
func TestRollingChangeOver(t *testing.T) { changeOver(t, harness.Distribution2) }

func changeOver(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	addrs := []string{harness.StartRegistry(t, root).Addr, harness.StartPeer(t, peer.Tool, root).Addr}
	const rounds = 8
	images := make([]*harness.Image, rounds)
	for i := range images {
		images[i] = harness.NewImage(t, uint64(100+i/2), 2, 20_000) // pairs push the same content
	}
	t.Run("push", func(t *testing.T) {
		for i, img := range images {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				img.Push(t, addrs[i%2], "rolling", fmt.Sprintf("v%d", i))
			})
		}
	})
	for i, img := range images {
		for _, addr := range addrs {
			img.Pulls(t, addr, "rolling", fmt.Sprintf("v%d", i))
		}
	}
}

// An upload begun on one side is finished on the other, with the secret shared.
func TestUploadChangesSides(t *testing.T) { uploadChangesSides(t, harness.Distribution2) }

func uploadChangesSides(t *testing.T, peer harness.Peer) {
	content := []byte(strings.Repeat("0123456789", 1000))
	root := t.TempDir()
	ours, theirs := harness.StartRegistry(t, root).Addr, harness.StartPeer(t, peer.Tool, root).Addr
	for _, way := range []struct{ name, from, to string }{{"ours first", ours, theirs}, {"theirs first", theirs, ours}} {
		t.Run(way.name, func(t *testing.T) {
			resp, body := harness.Fetch(t, "POST", "http://"+way.from+"/v2/moved/blobs/uploads/", nil, nil)
			if resp.StatusCode != http.StatusAccepted {
				t.Fatalf("POST: %s %s", resp.Status, body)
			}
			resp, body = harness.Fetch(t, "PATCH", harness.AbsoluteURL(t, way.from, resp.Header.Get("Location")), http.Header{"Content-Type": {"application/octet-stream"}}, strings.NewReader(string(content[:5000])))
			if resp.StatusCode != http.StatusAccepted {
				t.Fatalf("PATCH: %s %s", resp.Status, body)
			}
			there := strings.Replace(harness.AbsoluteURL(t, way.from, resp.Header.Get("Location")), way.from, way.to, 1)
			resp, body = harness.Fetch(t, "PATCH", there, http.Header{"Content-Type": {"application/octet-stream"}}, strings.NewReader(string(content[5000:])))
			if resp.StatusCode != http.StatusAccepted {
				t.Fatalf("PATCH on the other side: %s %s", resp.Status, body)
			}
			end := harness.WithQuery(t, harness.AbsoluteURL(t, way.to, resp.Header.Get("Location")), "digest", harness.DigestOf(content))
			if resp, body = harness.Fetch(t, "PUT", end, nil, nil); resp.StatusCode != http.StatusCreated {
				t.Fatalf("PUT on the other side: %s %s", resp.Status, body)
			}
			if left, _ := os.ReadDir(root + "/docker/registry/v2/repositories/moved/_uploads"); way.to == ours && len(left) > 0 {
				t.Errorf("what the upload was in is left: %v", left)
			}
			for _, addr := range []string{ours, theirs} {
				if resp, got := harness.Fetch(t, "GET", "http://"+addr+"/v2/moved/blobs/"+harness.DigestOf(content), nil, nil); resp.StatusCode != 200 || string(got) != string(content) {
					t.Errorf("GET on %s: %s, %d bytes", addr, resp.Status, len(got))
				}
			}
			if resp, body := harness.Fetch(t, "DELETE", "http://"+ours+"/v2/moved/blobs/"+harness.DigestOf(content), nil, nil); resp.StatusCode != http.StatusAccepted {
				t.Errorf("DELETE: %s %s", resp.Status, body)
			}
		})
	}
}
