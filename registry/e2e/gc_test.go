package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// gcCommand collects garbage on root. The environment comes on top of what
// slipwayCommand says.
func gcCommand(root string, args []string, env ...string) *exec.Cmd {
	cmd := slipwayCommand("127.0.0.1:0", root, env...)
	cmd.Args = append([]string{binary, "garbage-collect"}, args...)
	return cmd
}

func collectGarbage(t testing.TB, root string, args ...string) string {
	t.Helper()
	out, err := gcCommand(root, args).Output()
	if err != nil {
		t.Fatalf("garbage-collect: %v: %s", err, errorOutput(err))
	}
	return string(out)
}

// onDisk says whether the storage has a blob's bytes, anywhere.
func onDisk(t testing.TB, root, digest string) bool {
	t.Helper()
	hex := strings.TrimPrefix(digest, "sha256:")
	found := false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.Contains(path, hex) && !strings.HasSuffix(path, "/link") {
			found = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantOnDisk(t testing.TB, root string, img *image, want bool, except ...string) {
	t.Helper()
	for d := range img.blobs {
		if !slices.Contains(except, d) && onDisk(t, root, d) != want {
			t.Errorf("%s is on disk: %v, want %v", d, !want, want)
		}
	}
}

func deleteReference(t testing.TB, addr, repo, ref string) {
	t.Helper()
	if resp, body := fetch(t, "DELETE", "http://"+addr+"/v2/"+repo+"/manifests/"+ref, nil, nil); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("DELETE %s: %s %s", ref, resp.Status, body)
	}
}

// Push, delete, garbage-collect, and the bytes are free: beside the server that
// clients go on using, and without one.
func TestSpaceComesBack(t *testing.T) {
	flows := map[string]struct {
		args   []string
		remove func(t *testing.T, addr string, img *image)
	}{
		"delete by digest": {nil, func(t *testing.T, addr string, img *image) {
			deleteReference(t, addr, "gc/app", img.manifest)
		}},
		"delete by tag": {[]string{"-m"}, func(t *testing.T, addr string, _ *image) {
			deleteReference(t, addr, "gc/app", "v1")
		}},
		"tag again": {[]string{"--delete-untagged"}, func(t *testing.T, addr string, _ *image) {
			newImage(t, 203, 1, 5000).push(t, addr, "gc/app", "v1")
		}},
	}
	for name, flow := range flows {
		for _, serving := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " beside the server", false: " without a server"}[serving], func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				p := startSlipway(t, root)
				kept := newImage(t, 200, 2, 30_000)
				index := newIndex(t, newImage(t, 201, 1, 10_000), newImage(t, 202, 1, 10_000))
				kept.push(t, p.addr, "gc/kept", "latest")
				for _, img := range []*image{newImage(t, 204, 3, 50_000), index} {
					img.push(t, p.addr, "gc/app", "v1")
					flow.remove(t, p.addr, img)
					if !serving {
						if err := p.stop(t); err != nil {
							t.Fatal(err)
						}
					}
					out := collectGarbage(t, root, flow.args...)
					if name == "delete by digest" && img == index {
						// Its manifests have no tag, but nobody asked for -m.
						out = collectGarbage(t, root, "-m")
					}
					wantOnDisk(t, root, img, false)
					if !strings.Contains(out, "eligible for deletion\n") || !strings.HasSuffix(out, " manifests eligible for deletion\n") {
						t.Errorf("output does not end with the summary: %s", programtest.Tail(out))
					}
					if !serving {
						p = startSlipway(t, root)
					}
				}
				kept.pulls(t, p.addr, "gc/kept", "latest")
			})
		}
	}
}

// Beside a server, what a client has asked for recently stays.
func TestPromiseHolds(t *testing.T) {
	root := t.TempDir()
	p := startSlipway(t, root)
	img := newImage(t, 210, 2, 10_000)
	for d, b := range img.blobs {
		if d != img.manifest {
			pushBlob(t, p.addr, "gc/push", d, b)
		}
	}
	collectGarbage(t, root, "-m")
	pushManifest(t, p.addr, "gc/push", "v1", img.blobs[img.manifest])
	img.pulls(t, p.addr, "gc/push", "v1")

	// One push is over and its image deleted; another client has been told that the layer exists.
	layer := func() string {
		for d := range img.blobs {
			if d != img.manifest {
				return d
			}
		}
		return ""
	}()
	if resp, _ := fetch(t, "HEAD", "http://"+p.addr+"/v2/gc/push/blobs/"+layer, nil, nil); resp.StatusCode != 200 {
		t.Fatalf("HEAD: %s", resp.Status)
	}
	deleteReference(t, p.addr, "gc/push", img.manifest)
	collectGarbage(t, root)
	if resp, got := fetch(t, "GET", "http://"+p.addr+"/v2/gc/push/blobs/"+layer, nil, nil); resp.StatusCode != 200 || !bytes.Equal(got, img.blobs[layer]) {
		t.Errorf("a promised blob: %s", resp.Status)
	}
	wantOnDisk(t, root, img, false, layer)
	collectGarbage(t, root, "--age", "0s")
	if onDisk(t, root, layer) {
		t.Error("with --age 0s the promise still holds")
	}
}

// Nobody runs two collections at once, the flags are distribution's, and reports
// can be read by machines.
func TestGarbageCollectCommand(t *testing.T) {
	root := t.TempDir()
	p := startSlipway(t, root)
	img := newImage(t, 220, 1, 10_000)
	img.push(t, p.addr, "gc/cli", "v1")
	deleteReference(t, p.addr, "gc/cli", "v1")
	if out := collectGarbage(t, root, "-d", "-m", "-q"); out != "" {
		t.Errorf("-q writes %q", out)
	}
	wantOnDisk(t, root, img, true)
	var dry, real struct {
		DryRun bool
		Blobs  struct{ Found, Freed, Kept int }
		Bytes  struct{ Found, Freed, Kept int }
	}
	if err := json.Unmarshal([]byte(collectGarbage(t, root, "--json", "--dry-run", "--delete-untagged")), &dry); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(collectGarbage(t, root, "--json", "-m")), &real); err != nil {
		t.Fatal(err)
	}
	wantOnDisk(t, root, img, false)
	if !dry.DryRun || real.DryRun || dry.Blobs != real.Blobs || dry.Bytes != real.Bytes || real.Blobs.Freed != len(img.blobs) {
		t.Errorf("dry %+v, real %+v", dry, real)
	}
	if out, err := gcCommand(filepath.Join(root, "missing"), nil).CombinedOutput(); err != nil || !strings.Contains(string(out), "nothing to free") {
		t.Errorf("a storage that does not exist yet: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "missing")); err == nil {
		t.Error("it was made")
	}
}

// An image with a manifest that cannot be read is left alone; the exit status
// says so.
func TestUnreadableManifestIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	p := startSlipway(t, root)
	bad, garbage := newImage(t, 230, 1, 10_000), newImage(t, 231, 1, 10_000)
	bad.push(t, p.addr, "gc/bad", "v1")
	garbage.push(t, p.addr, "gc/good", "v1")
	deleteReference(t, p.addr, "gc/good", garbage.manifest)
	hex := strings.TrimPrefix(bad.manifest, "sha256:")
	if err := os.Remove(filepath.Join(root, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")); err != nil {
		t.Fatal(err)
	}
	out, err := gcCommand(root, nil).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "gc/bad") || !strings.Contains(string(out), bad.manifest) {
		t.Errorf("got %v: %s", err, out)
	}
	wantOnDisk(t, root, garbage, false)
	wantOnDisk(t, root, bad, true, bad.manifest)
}

// Volumes of distribution, collected with -m: everything tagged and its
// referrers still pull, and distribution still serves it.
func TestCollectVolumeOfDistribution(t *testing.T) {
	for _, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			theirs := startPeer(t, peer.tool, root)
			img := newImage(t, 240, 3, 40_000)
			index := newIndex(t, newImage(t, 241, 2, 20_000), newImage(t, 242, 1, 20_000))
			img.push(t, theirs.addr, "vol/app", "v1")
			index.push(t, theirs.addr, "vol/app", "multi")
			index.push(t, theirs.addr, "vol/other/deep", "multi")
			// A signature and an SBOM of a child of the index, and one of an
			// image that goes.
			children := index.manifests(t)
			signature := referrer(t, index, children[0], "application/vnd.dev.sigstore.bundle")
			sbom := referrer(t, signature, signature.manifest, "application/spdx+json")
			for _, r := range []*image{signature, sbom} {
				r.pushByDigest(t, theirs.addr, "vol/app")
			}
			old := newImage(t, 243, 2, 30_000)
			old.push(t, theirs.addr, "vol/app", "v2")
			orphan := referrer(t, old, old.manifest, "application/spdx+json")
			orphan.pushByDigest(t, theirs.addr, "vol/app")
			newImage(t, 244, 1, 10_000).push(t, theirs.addr, "vol/app", "v2") // old loses its tag
			gone := newImage(t, 245, 2, 30_000)
			gone.push(t, theirs.addr, "vol/gone", "v1")
			deleteReference(t, theirs.addr, "vol/gone", gone.manifest)
			theirs.Kill()

			out := collectGarbage(t, root, "-m")
			wantOnDisk(t, root, old, false)
			wantOnDisk(t, root, orphan, false, digestOf([]byte("{}")))
			wantOnDisk(t, root, gone, false)
			ours := startSlipway(t, root)
			theirs = startPeer(t, peer.tool, root)
			for _, addr := range []string{ours.addr, theirs.addr} {
				img.pulls(t, addr, "vol/app", "v1")
				index.pulls(t, addr, "vol/app", "multi")
				index.pulls(t, addr, "vol/other/deep", "multi")
				signature.pulls(t, addr, "vol/app", signature.manifest)
				sbom.pulls(t, addr, "vol/app", sbom.manifest)
				if got := listTags(t, addr, "vol/app"); got != "multi v1 v2" {
					t.Errorf("tags = %q", got)
				}
			}
			if _, body := fetch(t, "GET", "http://"+ours.addr+"/v2/_catalog", nil, nil); strings.Contains(string(body), "vol/gone") {
				t.Errorf("a repository with nothing in it is still listed: %s", body)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// referrer makes a manifest that refers to another one of of.
func referrer(t testing.TB, of *image, subject, artifactType string) *image {
	t.Helper()
	r := &image{blobs: map[string][]byte{}}
	empty := r.add("application/vnd.oci.empty.v1+json", []byte("{}"))
	payload := r.add(artifactType, []byte("about "+subject))
	r.manifest = r.add(typeManifest, mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "artifactType": artifactType,
		"config": empty, "layers": []descriptor{payload},
		"subject": descriptor{MediaType: typeManifest, Digest: subject, Size: len(of.blobs[subject])},
	})).Digest
	return r
}

// pushByDigest is push without a tag.
func (img *image) pushByDigest(t testing.TB, addr, repo string) {
	t.Helper()
	img.push(t, addr, repo, img.manifest)
}
