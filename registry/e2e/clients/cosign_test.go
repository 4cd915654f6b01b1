package clients

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
)

// cosign signs, attests and attaches with a key pair in each of its formats, as bundles that are referrers, by tags and as older
// referrers, finds it again, and the pages name what it is.
func TestFull_Cosign(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
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
	cosign("generate-key-pair", "--output-key-prefix", filepath.Join(dir, "k"))
	predicate, sbom, services := filepath.Join(dir, "predicate.json"), filepath.Join(dir, "sbom.spdx.json"), filepath.Join(dir, "services.json")
	scan := filepath.Join(dir, "scan.json")
	harness.WriteFile(t, predicate, []byte(`{"builder":"here"}`))
	harness.WriteFile(t, sbom, []byte(`{"spdxVersion":"SPDX-2.3"}`))
	harness.WriteFile(t, scan, []byte(`{"scanner":{"uri":"pkg:github/aquasecurity/trivy@0.68.1","version":"0.68.1","result":`+trivyReport+`},"metadata":{"scanFinishedOn":"2026-01-02T03:04:05Z"}}`))
	cosign("signing-config", "create", "--out", services) // no public log

	insecure := []string{"--allow-insecure-registry", "--allow-http-registry"}
	bundles := append([]string{"--signing-config", services}, insecure...)
	older := append([]string{"--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false"}, insecure...)
	signs := func(format []string, args ...string) {
		t.Helper()
		cosign(slices.Concat(args[:1], []string{"--key", key, "--yes"}, format, args[1:])...)
	}
	verifies := func(args ...string) []string {
		return slices.Concat(args[:1], []string{"--key", public, "--insecure-ignore-tlog"}, insecure, args[1:])
	}
	shows := func(path string, words ...string) {
		t.Helper()
		wantPage(t, addr, path, words...)
	}

	// Bundles, the format of today.
	img := harness.NewIndex(t, harness.NewImage(t, 3, 2, 20_000), harness.NewImage(t, 4, 1, 20_000))
	img.Push(t, addr, "signed/app", "v1")
	ref := addr + "/signed/app@" + img.Manifest
	if out, err := try(verifies("verify", ref)...); err == nil {
		t.Fatalf("cosign verifies what nobody signed: %s", out)
	}
	signs(bundles, "sign", "--recursive", ref)
	cosign(verifies("verify", ref)...)
	cosign(verifies("verify", addr+"/signed/app:v1")...)
	signs(bundles, "attest", "--type", "custom", "--predicate", predicate, ref)
	cosign(verifies("verify-attestation", "--type", "custom", ref)...)
	const bundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	if types := artifactTypes(t, addr, "signed/app", img.Manifest); !slices.Equal(types, []string{bundle, bundle}) {
		t.Errorf("referrers have the types %q, want two bundles", types)
	}
	if tags := harness.ListTags(t, addr, "signed/app"); tags != "v1" {
		t.Errorf("tags after signing = %q, want v1 only", tags)
	}
	if out := cosign(append(insecure, "tree", ref)...); !strings.Contains(out, "https://sigstore.dev/cosign/sign/v1") || !strings.Contains(out, "https://cosign.sigstore.dev/attestation/v1") {
		t.Errorf("cosign tree: %s", out)
	}
	signs(bundles, "attest", "--type", "vuln", "--predicate", scan, ref)
	shows("repository/signed/app", ">signature<", ">attestation<", ">2 critical<")
	shows("image/signed/app:v1", ">signature<", ">attestation<", ">2 critical<", ">Trivy, ", time.Now().UTC().Format("2006-")) // cosign dates its bundles

	// Tags, which all earlier releases read.
	img.Push(t, addr, "signed/older", "v1")
	ref = addr + "/signed/older@" + img.Manifest
	signs(older, "sign", "--recursive", ref)
	cosign(verifies("verify", "--new-bundle-format=false", ref)...)
	signs(older, "attest", "--type", "custom", "--predicate", predicate, ref)
	cosign(verifies("verify-attestation", "--new-bundle-format=false", "--type", "custom", ref)...)
	signs(older, "attest", "--type", "vuln", "--predicate", scan, ref)
	cosign(slices.Concat([]string{"attach", "sbom", "--sbom", sbom, "--type", "spdx"}, insecure, []string{ref})...)
	tags := harness.ListTags(t, addr, "signed/older")
	if strings.Count(tags, ".sig") != 3 || !strings.Contains(tags, ".att") || !strings.Contains(tags, ".sbom") {
		t.Errorf("tags after signing = %s, want three .sig, .att and .sbom", tags)
	}
	shows("repository/signed/older", ">signature<", ">attestation<", ">SBOM<", ">2 critical<")

	// Referrers without bundles.
	other := harness.NewImage(t, 5, 1, 20_000)
	other.Push(t, addr, "signed/new", "v1")
	ref = addr + "/signed/new@" + other.Manifest
	signs(older, "sign", "--registry-referrers-mode=oci-1-1", ref)
	cosign(verifies("verify", "--new-bundle-format=false", "--experimental-oci11", ref)...)
	cosign(slices.Concat([]string{"attach", "sbom", "--sbom", sbom, "--type", "spdx", "--registry-referrers-mode=oci-1-1"}, insecure, []string{ref})...)
	if types := artifactTypes(t, addr, "signed/new", other.Manifest); len(types) != 2 {
		t.Errorf("referrers have the types %q, want a signature and a bill of materials", types)
	}
	if tags := harness.ListTags(t, addr, "signed/new"); tags != "v1" {
		t.Errorf("tags after attaching by referrers = %q, want v1 only", tags)
	}
	cosign(slices.Concat([]string{"tree", "--experimental-oci11"}, insecure, []string{ref})...)
	shows("repository/signed/new", ">signature<", ">SBOM<")
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
