package e2e

import (
	"encoding/json"
	"slices"
	"testing"
)

// skopeo carries whole repositories from one registry to another, and says of
// an image what its maker put in.
func TestSkopeoSync(t *testing.T) {
	from, to := startSlipway(t, t.TempDir()).addr, startSlipway(t, t.TempDir()).addr
	images := map[string]*image{
		"v1": newImage(t, 4, 2, 50_000), "v2": newImage(t, 5, 3, 20_000),
		"many": newIndex(t, newImage(t, 6, 1, 10_000), newImage(t, 7, 1, 10_000)),
	}
	for tag, img := range images {
		img.push(t, from, "team/app", tag)
	}
	sync := []string{"--insecure-policy", "sync", "--all", "--src-tls-verify=false"}
	runTool(t, "skopeo", append(sync, "--src=docker", "--dest=docker", "--dest-tls-verify=false", from+"/team/app", to+"/copies")...)
	for tag, img := range images {
		img.pulls(t, to, "copies/app", tag)
	}

	dir := t.TempDir()
	runTool(t, "skopeo", append(sync, "--scoped", "--src=docker", "--dest=dir", from+"/team/app", dir)...)
	again := startSlipway(t, t.TempDir()).addr
	runTool(t, "skopeo", append(sync, "--src=dir", "--dest=docker", "--dest-tls-verify=false", dir, again+"/back")...)

	var seen struct {
		Digest, Architecture string
		RepoTags, Layers     []string
	}
	out := runTool(t, "skopeo", "inspect", "--tls-verify=false", "docker://"+from+"/team/app:v2")
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	slices.Sort(seen.RepoTags)
	if want := images["v2"]; seen.Digest != want.manifest || seen.Architecture != want.arch || len(seen.Layers) != 3 || !slices.Equal(seen.RepoTags, []string{"many", "v1", "v2"}) {
		t.Errorf("skopeo inspect = %+v, want %s %s", seen, want.manifest, want.arch)
	}
	if raw := runTool(t, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+from+"/team/app:many"); digestOf([]byte(raw)) != images["many"].manifest {
		t.Errorf("skopeo inspect --raw of the index has another digest: %s", raw)
	}
}
