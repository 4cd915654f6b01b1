package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// An unmodified client pushes an image and gets the same bytes back.
func TestClientsRoundTrip(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	images := map[string]*harness.Image{
		"image": harness.NewImage(t, 1, 3, 200_000),
		"index": harness.NewIndex(t, harness.NewImage(t, 2, 2, 50_000), harness.NewImage(t, 3, 1, 10_000)),
	}
	for kind, img := range images {
		t.Run("skopeo "+kind, func(t *testing.T) {
			ref := "docker://" + addr + "/skopeo/" + kind + ":v1"
			harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--all", "--dest-tls-verify=false", "oci:"+img.Layout(t, "v1")+":v1", ref)
			back := t.TempDir()
			harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--all", "--src-tls-verify=false", ref, "oci:"+back+":v1")
			img.SameLayout(t, back)
			img.Pulls(t, addr, "skopeo/"+kind, "v1")
			if out := harness.RunTool(t, "skopeo", "list-tags", "--tls-verify=false", "docker://"+addr+"/skopeo/"+kind); !strings.Contains(out, `"v1"`) {
				t.Errorf("skopeo list-tags does not show v1: %s", out)
			}
			harness.RunTool(t, "skopeo", "delete", "--tls-verify=false", ref)
			if out, err := harness.TryTool(t, nil, "skopeo", "inspect", "--tls-verify=false", ref); err == nil {
				t.Errorf("skopeo inspect still finds the deleted image: %s", out)
			}
		})
		t.Run("crane "+kind, func(t *testing.T) {
			repo := addr + "/crane/" + kind
			harness.RunTool(t, "crane", "--insecure", "push", img.Layout(t, "v1"), repo+":v1")
			if got := strings.TrimSpace(harness.RunTool(t, "crane", "--insecure", "digest", repo+":v1")); got != img.Manifest {
				t.Errorf("crane digest = %s, want %s", got, img.Manifest)
			}
			harness.RunTool(t, "crane", "--insecure", "validate", "--remote", repo+":v1")
			back := t.TempDir()
			harness.RunTool(t, "crane", "--insecure", "pull", "--format=oci", repo+":v1", back)
			img.SameLayout(t, back)
			// A copy into another repository mounts what is there.
			harness.RunTool(t, "crane", "--insecure", "copy", repo+":v1", addr+"/crane/copy-"+kind+":v2")
			img.Pulls(t, addr, "crane/copy-"+kind, "v2")
			if got := harness.RunTool(t, "crane", "--insecure", "catalog", addr); !strings.Contains(got, "crane/copy-"+kind) {
				t.Errorf("crane catalog does not show the copy: %s", got)
			}
		})
		t.Run("regctl "+kind, func(t *testing.T) {
			env := regctlHome(t, addr)
			ref := addr + "/regctl/" + kind + ":v1"
			if out, err := harness.TryTool(t, env, "regctl", "image", "copy", "ocidir://"+img.Layout(t, "v1")+":v1", ref); err != nil {
				t.Fatalf("regctl image copy: %v\n%s", err, out)
			}
			back := t.TempDir()
			if out, err := harness.TryTool(t, env, "regctl", "image", "copy", ref, "ocidir://"+back+":v1"); err != nil {
				t.Fatalf("regctl image copy back: %v\n%s", err, out)
			}
			img.SameLayout(t, back)
			if out, err := harness.TryTool(t, env, "regctl", "tag", "delete", ref); err != nil {
				t.Errorf("regctl tag delete: %v\n%s", err, out)
			}
		})
	}
}

// An image of as many layers as nobody should have.
func TestManyLayers(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	img := harness.NewImage(t, 61, 200, 5_000)
	harness.RunTool(t, "crane", "--insecure", "push", img.Layout(t, "v1"), addr+"/layers:v1")
	harness.RunTool(t, "crane", "--insecure", "validate", "--remote", addr+"/layers:v1")
	img.Pulls(t, addr, "layers", "v1")
}

// regctl keeps its settings in a file; say there that the registry has no TLS.
func regctlHome(t *testing.T, addr string) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "regctl.json")
	harness.WriteFile(t, config, []byte(`{"hosts":{"`+addr+`":{"tls":"disabled"}}}`))
	return []string{"REGCTL_CONFIG=" + config}
}
