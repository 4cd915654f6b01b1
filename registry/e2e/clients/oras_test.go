package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// oras logs in, pushes files, attaches some to them, finds and copies all of it, and backs it up and restores it.
func TestOras(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "htpasswd")
	harness.WriteUser(t, file, "ada", "secret")
	addr := harness.StartRegistry(t, filepath.Join(dir, "root"), "REGISTRY_AUTH_HTPASSWD_REALM=basic-realm", "REGISTRY_AUTH_HTPASSWD_PATH="+file,
		"REGISTRY_STORAGE_DELETE_ENABLED=true").Addr
	login := filepath.Join(dir, "login.json")
	try := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "oras"), args...)
		cmd.Dir = dir // oras pushes files by their relative names
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	oras := func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("oras %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	with := func(args ...string) []string { return append(args, "--plain-http", "--registry-config", login) }
	referrers := func(ref string) []string {
		t.Helper()
		var found struct {
			Referrers []struct {
				ArtifactType string `json:"artifactType"`
				Referrers    []struct {
					ArtifactType string `json:"artifactType"`
				} `json:"referrers"`
			} `json:"referrers"`
		}
		if out := oras(with("discover", "--format", "json", ref)...); json.Unmarshal([]byte(out), &found) != nil {
			t.Fatalf("oras discover: %s", out)
		}
		var types []string
		for _, r := range found.Referrers {
			types = append(types, r.ArtifactType)
			for _, of := range r.Referrers {
				types = append(types, r.ArtifactType+" < "+of.ArtifactType)
			}
		}
		slices.Sort(types)
		return types
	}

	for name, text := range map[string]string{"a.txt": "first", "sub/b.txt": "second", "sbom.json": `{"spdxVersion":"SPDX-2.3"}`, "signature": "signed"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, path, []byte(text))
	}
	ref := addr + "/oras/files:v1"
	if out, err := try(with("push", ref, "a.txt:text/plain")...); err == nil {
		t.Errorf("oras push without a login: %s", out)
	}
	oras(with("login", "-u", "ada", "-p", "secret", addr)...)
	oras(with("push", "--artifact-type", "application/x-files", "--annotation", "org.example.by=ada", ref+",latest", "a.txt:text/plain", "sub")...)
	oras(with("attach", "--artifact-type", "application/spdx+json", ref, "sbom.json:application/spdx+json")...)
	digest := func(of string) string {
		return strings.TrimSpace(oras(with("resolve", of)...))
	}
	var sbom struct {
		Referrers []struct {
			Digest string `json:"digest"`
		} `json:"referrers"`
	}
	if out := oras(with("discover", "--format", "json", ref)...); json.Unmarshal([]byte(out), &sbom) != nil || len(sbom.Referrers) != 1 {
		t.Fatalf("oras discover: %s", out)
	}
	oras(with("attach", "--artifact-type", "application/x-signature", addr+"/oras/files@"+sbom.Referrers[0].Digest, "signature")...)
	want := []string{"application/spdx+json", "application/spdx+json < application/x-signature"}
	if got := referrers(ref); !slices.Equal(got, want) {
		t.Errorf("referrers: %q, want %q", got, want)
	}
	pulled := func(ref string) {
		t.Helper()
		back := t.TempDir()
		oras(with("pull", "-o", back, ref)...)
		for name, text := range map[string]string{"a.txt": "first", "sub/b.txt": "second"} {
			if got, err := os.ReadFile(filepath.Join(back, name)); string(got) != text {
				t.Errorf("%s: %s is %q (%v), want %q", ref, name, got, err, text)
			}
		}
	}
	pulled(ref)

	copied := addr + "/oras/copied:v2"
	oras("cp", "-r", "--from-plain-http", "--to-plain-http", "--from-registry-config", login, "--to-registry-config", login, ref, copied)
	pulled(copied)
	if got := referrers(copied); digest(copied) != digest(ref) || !slices.Equal(got, want) {
		t.Errorf("copied %s with %q, want %s with %q", digest(copied), got, digest(ref), want)
	}

	backup := filepath.Join(dir, "backup.tar")
	oras(with("backup", "--include-referrers", "--output", backup, addr+"/oras/files")...)
	oras(with("restore", "--input", backup, addr+"/oras/restored")...)
	restored := addr + "/oras/restored:latest"
	pulled(restored)
	if got := referrers(restored); digest(restored) != digest(ref) || !slices.Equal(got, want) {
		t.Errorf("restored %s with %q, want %s with %q", digest(restored), got, digest(ref), want)
	}

	if got := strings.Fields(oras(with("repo", "tags", addr+"/oras/restored")...)); !slices.Equal(got, []string{"latest", "v1"}) {
		t.Errorf("tags: %q", got)
	}
	if got := strings.Fields(oras(with("repo", "ls", addr)...)); !slices.Equal(got, []string{"oras/copied", "oras/files", "oras/restored"}) {
		t.Errorf("repositories: %q", got)
	}
	oras(with("manifest", "delete", "--force", copied)...)
	if out, err := try(with("resolve", copied)...); err == nil {
		t.Errorf("oras resolves what it deleted: %s", out)
	}
}

// Reports that scanners write.
const (
	trivyReport = `{"SchemaVersion":2,"CreatedAt":"2026-01-02T03:04:05Z","ArtifactName":"app","Results":[{"Target":"debian","Vulnerabilities":[
		{"VulnerabilityID":"CVE-2026-1","PkgName":"libssl3","InstalledVersion":"3.0","Severity":"CRITICAL"},
		{"VulnerabilityID":"CVE-2026-1","PkgName":"openssl","InstalledVersion":"3.0","Severity":"CRITICAL"},
		{"VulnerabilityID":"CVE-2026-2","PkgName":"zlib","InstalledVersion":"1.2","Severity":"LOW"}]}]}`
	grypeReport = `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"grype","version":"0.104.0","rules":[{"id":"CVE-2026-3-zlib","properties":{"security-severity":"7.5"}}]}},
		"results":[{"ruleId":"CVE-2026-3-zlib","message":{"text":"zlib"}}]}]}`
)

// Scan reports that oras attaches are on the page of what they are attached to, and in the list of its tags.
func TestOras_ScanReports(t *testing.T) {
	addr, dir := harness.StartRegistry(t, t.TempDir()).Addr, t.TempDir()
	child := harness.ImageOf(t, "amd64", harness.Tar(t, "app", []byte("one")))
	index := harness.NewIndex(t, child, harness.ImageOf(t, "arm64", harness.Tar(t, "app", []byte("two"))))
	index.Push(t, addr, "app", "v1")
	attach := func(ref, artifactType, report string) {
		t.Helper()
		harness.WriteFile(t, filepath.Join(dir, "report.json"), []byte(report))
		cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "oras"), "attach", "--plain-http", "--artifact-type", artifactType, addr+"/app"+ref, "report.json")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	shows := func(path string, words ...string) {
		t.Helper()
		wantPage(t, addr, path, words...)
	}
	attach(":v1", "application/sarif+json", grypeReport)
	shows("repository/app", ">1 high<")
	attach("@"+child.Manifest, "application/sarif+json", grypeReport)
	shows("image/app@"+child.Manifest, ">1 high<")
	attach(":v1", "application/vnd.aquasec.trivy.report+json", trivyReport)
	shows("repository/app", ">2 critical<", "1 low")
	attach(":v1", "application/sarif+json", "{")
	shows("image/app:v1", "grype", ">1 high<", "Trivy", ">2 critical<")
}
