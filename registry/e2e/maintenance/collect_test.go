package maintenance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// letAge makes everything on the storage half an hour old: beside a server, young things
// stay.
func letAge(t testing.TB, root string) {
	t.Helper()
	then := time.Now().Add(-30 * time.Minute)
	err := filepath.WalkDir(root+"/docker", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chtimes(path, then, then)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Push, delete, wait, garbage-collect, and the bytes are free, beside the server that
// clients go on using. Without one nobody has to wait.
func TestSpaceComesBack(t *testing.T) {
	t.Parallel()
	flows := map[string]struct {
		args   []string
		remove func(t *testing.T, addr string, img *harness.Image)
	}{
		"delete by digest": {nil, func(t *testing.T, addr string, img *harness.Image) {
			harness.DeleteReference(t, addr, "gc/app", img.Manifest)
		}},
		"delete by tag": {[]string{"-m"}, func(t *testing.T, addr string, _ *harness.Image) {
			harness.DeleteReference(t, addr, "gc/app", "v1")
		}},
		"tag again": {[]string{"--delete-untagged"}, func(t *testing.T, addr string, _ *harness.Image) {
			harness.NewImage(t, 203, 1, 5000).Push(t, addr, "gc/app", "v1")
		}},
	}
	for name, flow := range flows {
		for _, serving := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " beside the server", false: " without a server"}[serving], func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				p := harness.StartRegistry(t, root)
				kept := harness.NewImage(t, 200, 2, 30_000)
				index := harness.NewIndex(t, harness.NewImage(t, 201, 1, 10_000), harness.NewImage(t, 202, 1, 10_000))
				kept.Push(t, p.Addr, "gc/kept", "latest")
				for _, img := range []*harness.Image{harness.NewImage(t, 204, 3, 50_000), index} {
					img.Push(t, p.Addr, "gc/app", "v1")
					flow.remove(t, p.Addr, img)
					if serving {
						wantKept(t, root, img, flow.args)
						letAge(t, root)
					} else if err := p.Stop(t); err != nil {
						t.Fatal(err)
					}
					out := harness.CollectGarbage(t, root, flow.args...)
					if name == "delete by digest" && img == index {
						// Its manifests have no tag, but nobody asked for -m.
						out = harness.CollectGarbage(t, root, "-m")
					}
					harness.WantFreed(t, root, img)
					if !strings.Contains(out, "eligible for deletion\n") || !strings.HasSuffix(out, " manifests eligible for deletion\n") {
						t.Errorf("output does not end with the summary: %s", programtest.Tail(out))
					}
					if !serving {
						p = harness.StartRegistry(t, root)
					}
				}
				kept.Pulls(t, p.Addr, "gc/kept", "latest")
			})
		}
	}
}

// wantKept collects beside a server and checks that what is young stays.
func wantKept(t testing.TB, root string, img *harness.Image, args []string) {
	t.Helper()
	harness.CollectGarbage(t, root, args...)
	for d := range img.Blobs {
		if d != img.Manifest && !harness.OnDisk(t, root, d) {
			t.Errorf("%s was just pushed, and is gone", d)
		}
	}
}

// Volumes of distribution, collected with -m: everything tagged and its
// referrers still pull, and distribution still serves it.
func TestCollectVolumeOfDistribution(t *testing.T) {
	t.Parallel()
	collectVolumeOf(t, harness.Distribution2)
}

func TestFull_CollectVolumeOfDistribution(t *testing.T) {
	t.Parallel()
	collectVolumeOf(t, harness.Distribution3)
}

func collectVolumeOf(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	theirs := harness.StartPeer(t, peer.Tool, root)
	img := harness.NewImage(t, 240, 3, 40_000)
	index := harness.NewIndex(t, harness.NewImage(t, 241, 2, 20_000), harness.NewImage(t, 242, 1, 20_000))
	img.Push(t, theirs.Addr, "vol/app", "v1")
	index.Push(t, theirs.Addr, "vol/app", "multi")
	index.Push(t, theirs.Addr, "vol/other/deep", "multi")
	// A signature and an SBOM of a child of the index, and one of an
	// image that goes.
	children := index.Manifests(t)
	signature := referrer(t, index, children[0], "application/vnd.dev.sigstore.bundle")
	sbom := referrer(t, signature, signature.Manifest, "application/spdx+json")
	for _, r := range []*harness.Image{signature, sbom} {
		r.PushByDigest(t, theirs.Addr, "vol/app")
	}
	old := harness.NewImage(t, 243, 2, 30_000)
	old.Push(t, theirs.Addr, "vol/app", "v2")
	orphan := referrer(t, old, old.Manifest, "application/spdx+json")
	orphan.PushByDigest(t, theirs.Addr, "vol/app")
	harness.NewImage(t, 244, 1, 10_000).Push(t, theirs.Addr, "vol/app", "v2") // old loses its tag
	gone := harness.NewImage(t, 245, 2, 30_000)
	gone.Push(t, theirs.Addr, "vol/gone", "v1")
	harness.DeleteReference(t, theirs.Addr, "vol/gone", gone.Manifest)
	theirs.Kill()

	out := harness.CollectGarbage(t, root, "-m")
	harness.WantFreed(t, root, old)
	harness.WantFreed(t, root, orphan, harness.DigestOf([]byte("{}")))
	harness.WantFreed(t, root, gone)
	ours := harness.StartRegistry(t, root)
	theirs = harness.StartPeer(t, peer.Tool, root)
	for _, addr := range []string{ours.Addr, theirs.Addr} {
		img.Pulls(t, addr, "vol/app", "v1")
		index.Pulls(t, addr, "vol/app", "multi")
		index.Pulls(t, addr, "vol/other/deep", "multi")
		signature.Pulls(t, addr, "vol/app", signature.Manifest)
		sbom.Pulls(t, addr, "vol/app", sbom.Manifest)
		if got := harness.ListTags(t, addr, "vol/app"); got != "multi v1 v2" {
			t.Errorf("tags = %q", got)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// referrer makes a manifest that refers to another one of of.
func referrer(t testing.TB, of *harness.Image, subject, artifactType string) *harness.Image {
	t.Helper()
	r := &harness.Image{Blobs: map[string][]byte{}}
	empty := r.Add("application/vnd.oci.empty.v1+json", []byte("{}"))
	payload := r.Add(artifactType, []byte("about "+subject))
	r.Manifest = r.Add(harness.TypeManifest, harness.JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": harness.TypeManifest, "artifactType": artifactType,
		"config": empty, "layers": []harness.Descriptor{payload},
		"subject": harness.Descriptor{MediaType: harness.TypeManifest, Digest: subject, Size: len(of.Blobs[subject])},
	})).Digest
	return r
}
