package clients

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// cosign signs and attaches with a key pair, both the old way, by tags, and as
// referrers, and finds again what it attached.
func TestFull_Cosign(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	img := harness.NewIndex(t, harness.NewImage(t, 3, 2, 20_000), harness.NewImage(t, 4, 1, 20_000))
	img.Push(t, addr, "signed/app", "v1")
	ref := addr + "/signed/app@" + img.Manifest
	dir := t.TempDir()
	key, public := filepath.Join(dir, "k.key"), filepath.Join(dir, "k.pub")
	try := func(args ...string) (string, error) {
		return harness.TryTool(t, []string{"HOME=" + dir, "COSIGN_PASSWORD=secret", "COSIGN_EXPERIMENTAL=1"}, "cosign", args...)
	}
	cosign := func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	insecure := []string{"--allow-insecure-registry", "--allow-http-registry"}
	with := func(args ...string) []string { return append(args, insecure...) }

	cosign("generate-key-pair", "--output-key-prefix", filepath.Join(dir, "k"))
	verify := with("verify", "--key", public, "--insecure-ignore-tlog", ref)
	if out, err := try(verify...); err == nil {
		t.Fatalf("cosign verifies what nobody signed: %s", out)
	}
	cosign(with("sign", "--key", key, "--tlog-upload=false", "--yes", "--recursive", ref)...)
	cosign(verify...)
	cosign(with("verify", "--key", public, "--insecure-ignore-tlog", addr+"/signed/app:v1")...)

	predicate := filepath.Join(dir, "predicate.json")
	harness.WriteFile(t, predicate, []byte(`{"builder":"here"}`))
	cosign(with("attest", "--key", key, "--tlog-upload=false", "--yes", "--type", "custom", "--predicate", predicate, ref)...)
	cosign(with("verify-attestation", "--key", public, "--insecure-ignore-tlog", "--type", "custom", ref)...)
	sbom := filepath.Join(dir, "sbom.spdx.json")
	harness.WriteFile(t, sbom, []byte(`{"spdxVersion":"SPDX-2.3"}`))
	cosign(with("attach", "sbom", "--sbom", sbom, "--type", "spdx", ref)...)
	if tags := harness.ListTags(t, addr, "signed/app"); strings.Count(tags, ".sig") != 3 || !strings.Contains(tags, ".att") || !strings.Contains(tags, ".sbom") {
		t.Errorf("tags after signing = %s, want three .sig, .att and .sbom", tags)
	}

	// As referrers: no tag, found by the subject.
	other := harness.NewImage(t, 5, 1, 20_000)
	other.Push(t, addr, "signed/new", "v1")
	ref = addr + "/signed/new@" + other.Manifest
	cosign(with("sign", "--key", key, "--tlog-upload=false", "--yes", "--registry-referrers-mode=oci-1-1", ref)...)
	cosign(with("verify", "--key", public, "--insecure-ignore-tlog", "--experimental-oci11", ref)...)
	cosign(with("attach", "sbom", "--sbom", sbom, "--type", "spdx", "--registry-referrers-mode=oci-1-1", ref)...)
	if types := artifactTypes(t, addr, "signed/new", other.Manifest); len(types) != 2 {
		t.Errorf("referrers have the types %q, want a signature and a bill of materials", types)
	}
	if tags := harness.ListTags(t, addr, "signed/new"); tags != "v1" {
		t.Errorf("tags after attaching by referrers = %q, want v1 only", tags)
	}
	cosign(with("tree", "--experimental-oci11", ref)...)
}

// artifactTypes are the types of what refers to a manifest, sorted.
func artifactTypes(t *testing.T, addr, repo, digest string) []string {
	t.Helper()
	resp, body := harness.Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/referrers/"+digest, nil, nil)
	var index struct {
		Manifests []harness.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(body, &index); err != nil || resp.StatusCode != 200 {
		t.Fatalf("referrers of %s: %s %v in %s", digest, resp.Status, err, body)
	}
	var types []string
	for _, d := range index.Manifests {
		types = append(types, d.ArtifactType)
	}
	slices.Sort(types)
	return types
}
