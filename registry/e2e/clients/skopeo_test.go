package clients

import (
	"encoding/json"
	"slices"
	"testing"

	"slipway/registry/e2e/harness"
)

// skopeo carries whole repositories from one registry to another, and says of
// an image what its maker put in.
func TestSkopeoSync(t *testing.T) {
	from, to := harness.StartRegistry(t, t.TempDir()).Addr, harness.StartRegistry(t, t.TempDir()).Addr
	images := map[string]*harness.Image{
		"v1": harness.NewImage(t, 4, 2, 50_000), "v2": harness.NewImage(t, 5, 3, 20_000),
		"many": harness.NewIndex(t, harness.NewImage(t, 6, 1, 10_000), harness.NewImage(t, 7, 1, 10_000)),
	}
	for tag, img := range images {
		img.Push(t, from, "team/app", tag)
	}
	sync := []string{"--insecure-policy", "sync", "--all", "--src-tls-verify=false"}
	harness.RunTool(t, "skopeo", append(sync, "--src=docker", "--dest=docker", "--dest-tls-verify=false", from+"/team/app", to+"/copies")...)
	for tag, img := range images {
		img.Pulls(t, to, "copies/app", tag)
	}

	dir := t.TempDir()
	harness.RunTool(t, "skopeo", append(sync, "--scoped", "--src=docker", "--dest=dir", from+"/team/app", dir)...)
	again := harness.StartRegistry(t, t.TempDir()).Addr
	harness.RunTool(t, "skopeo", append(sync, "--src=dir", "--dest=docker", "--dest-tls-verify=false", dir, again+"/back")...)

	var seen struct {
		Digest, Architecture string
		RepoTags, Layers     []string
	}
	out := harness.RunTool(t, "skopeo", "inspect", "--tls-verify=false", "docker://"+from+"/team/app:v2")
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	slices.Sort(seen.RepoTags)
	if want := images["v2"]; seen.Digest != want.Manifest || seen.Architecture != want.Arch || len(seen.Layers) != 3 || !slices.Equal(seen.RepoTags, []string{"many", "v1", "v2"}) {
		t.Errorf("skopeo inspect = %+v, want %s %s", seen, want.Manifest, want.Arch)
	}
	if raw := harness.RunTool(t, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+from+"/team/app:many"); harness.DigestOf([]byte(raw)) != images["many"].Manifest {
		t.Errorf("skopeo inspect --raw of the index has another digest: %s", raw)
	}
}
