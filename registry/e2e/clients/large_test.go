package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// A layer of a gibibyte goes there and back.
func TestFull_LargeLayer(t *testing.T) {
	const size = 1 << 30
	for name, f := range harness.Fronts(t) {
		t.Run(name, func(t *testing.T) {
			layout, layer := largeLayout(t, size)
			f.Crane(t, "push", layout, f.Addr+"/large/"+strings.ToLower(name)+":v1")
			cmd := f.CraneCommand(t, "blob", f.Addr+"/large/"+strings.ToLower(name)+"@"+layer)
			h := sha256.New()
			cmd.Stdout = h
			if err := cmd.Run(); err != nil {
				t.Fatalf("crane blob: %v", err)
			}
			if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != layer {
				t.Errorf("the layer came back as %s, want %s", got, layer)
			}
		})
	}
}

// largeLayout writes a layout whose one layer is size bytes of nothing, which
// cost no disk here but all of the way.
func largeLayout(t testing.TB, size int64) (dir, layer string) {
	t.Helper()
	dir = t.TempDir()
	zeros := filepath.Join(dir, "zeros")
	harness.WriteFile(t, zeros, nil)
	if err := os.Truncate(zeros, size); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(zeros)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	img := &harness.Image{Arch: "amd64", Blobs: map[string][]byte{}}
	config := img.Add(harness.TypeConfig, harness.JSON(t, map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
	}))
	img.Manifest = img.Add(harness.TypeManifest, harness.JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": harness.TypeManifest, "config": config,
		"layers": []harness.Descriptor{{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: "sha256:" + sum, Size: int(size)}},
	})).Digest
	out := img.Layout(t, "v1")
	if err := os.Rename(zeros, filepath.Join(out, "blobs", "sha256", sum)); err != nil {
		t.Fatal(err)
	}
	return out, "sha256:" + sum
}

// An image of as many layers as nobody should have.
func TestManyLayers(t *testing.T) {
	img := harness.NewImage(t, 61, 200, 5_000)
	layout := img.Layout(t, "v1")
	for name, f := range harness.Fronts(t) {
		t.Run(name, func(t *testing.T) {
			repo := "layers/" + strings.ToLower(name)
			f.Crane(t, "push", layout, f.Addr+"/"+repo+":v1")
			f.Crane(t, "validate", "--remote", f.Addr+"/"+repo+":v1")
			img.Pulls(t, f.Backend, repo, "v1")
		})
	}
}

// Clients push images that share their layers at once, some into one
// repository, some into their own.
func TestParallelPushesOfSharedLayers(t *testing.T) { parallelPushes(t, 8) }

func TestFull_ParallelPushesOfSharedLayers(t *testing.T) { parallelPushes(t, 50) }

func parallelPushes(t *testing.T, pushes int) {
	var shared [][]byte
	for i := range 4 {
		shared = append(shared, harness.Tar(t, "shared", bytes.Repeat([]byte{byte(i), 'x'}, 300_000)))
	}
	images := make([]*harness.Image, pushes)
	layouts := make([]string, pushes)
	for i := range images {
		own := harness.Tar(t, "own", fmt.Append(nil, "image ", i))
		images[i] = harness.ImageOf(t, "amd64", append(shared[:4:4], own)...)
		layouts[i] = images[i].Layout(t, "v1")
	}
	for name, f := range harness.Fronts(t) {
		t.Run(name, func(t *testing.T) {
			target := func(i int) (repo, tag string) {
				if i%2 == 0 {
					return "shared/" + strings.ToLower(name), fmt.Sprintf("v%d", i)
				}
				return fmt.Sprintf("shared/%s-%d", strings.ToLower(name), i), "v1"
			}
			var wg sync.WaitGroup
			for i := range images {
				wg.Go(func() {
					repo, tag := target(i)
					if out, err := f.CraneCommand(t, "push", layouts[i], f.Addr+"/"+repo+":"+tag).CombinedOutput(); err != nil {
						t.Errorf("push %d: %v\n%s", i, err, programtest.Tail(string(out)))
					}
				})
			}
			wg.Wait()
			for i, img := range images {
				repo, tag := target(i)
				img.Pulls(t, f.Backend, repo, tag)
			}
		})
	}
}
