package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// A policy refuses to anonymous callers what neither the key nor a login of the rule has signed with cosign, in each of its formats, and
// lets them verify the rest.
func TestFull_SignaturePolicy(t *testing.T) {
	dir := t.TempDir()
	cosign := func(args ...string) {
		t.Helper()
		if out, err := harness.TryTool(t, []string{"HOME=" + dir, "COSIGN_PASSWORD=secret"}, "cosign", args...); err != nil {
			t.Fatalf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"ours", "other"} {
		cosign("generate-key-pair", "--output-key-prefix", file(name))
	}
	cosign("signing-config", "create", "--out", file("services"))
	harness.WriteFile(t, file("predicate"), []byte(`{"builder":"here"}`))
	logins := startSigstore(t)
	x := harness.StartTeam(t, dir, harness.TeamRules, fmt.Sprintf(`
policy:
  signatures:
    - {repositories: ["signed/**"], keys: [%s]}
    - {repositories: ["watched/**"], keys: [%[1]s], action: warn}
    - {repositories: ["keyless/**"], keys: [%[1]s], trustedroot: %[2]s, identities: [{issuer: %[3]q, subject: "*@example.org"}]}
`, file("ours.pub"), logins.root, logins.URL))
	insecure := []string{"--allow-insecure-registry", "--allow-http-registry"}
	login := append([]string{"--registry-username", "alice", "--registry-password", "secret of alice", "--yes"}, insecure...)
	get := func(repo, ref string) (status int, warning, body string) {
		t.Helper()
		resp, content := harness.Fetch(t, "GET", "http://"+x.Addr+"/v2/"+repo+"/manifests/"+ref, harness.AcceptAll, nil)
		return resp.StatusCode, resp.Header.Get("Warning"), string(content)
	}
	expect := func(repo, ref, reason string) {
		t.Helper()
		status, warning, body := get(repo, ref)
		switch {
		case reason == "" && (status != 200 || warning != ""):
			t.Errorf("%s@%s: %d %q %s; want 200", repo, ref, status, warning, body)
		case reason != "" && (status != 403 || !strings.Contains(body, "DENIED") || !strings.Contains(body, reason)):
			t.Errorf("%s@%s: %d %s; want 403 since it %s", repo, ref, status, body, reason)
		}
	}
	for format, flags := range map[string][]string{
		"bundle": {"--signing-config", file("services")},
		"tag":    {"--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false"},
	} {
		repo := "signed/" + format
		sign := func(verb, key, digest string, more ...string) {
			t.Helper()
			cosign(slices.Concat([]string{verb, "--key", file(key + ".key")}, more, login, flags, []string{x.Addr + "/" + repo + "@" + digest})...)
		}
		child := harness.NewImage(t, 3, 1, 2000)
		index, other, attested := harness.NewIndex(t, child), harness.NewImage(t, 4, 1, 2000), harness.NewImage(t, 5, 1, 2000)
		for tag, img := range map[string]*harness.Image{"v1": index, "other": other, "attested": attested} {
			img.Push(t, harness.AsAlice(x.Addr), repo, tag)
			expect(repo, tag, "is not signed")
			expect(repo, img.Manifest, "is not signed")
		}
		expect(repo, child.Manifest, "is not signed")
		sign("sign", "ours", index.Manifest)
		sign("sign", "other", other.Manifest)
		sign("attest", "ours", attested.Manifest, "--type", "custom", "--predicate", file("predicate"))
		for _, ref := range []string{"v1", index.Manifest, child.Manifest} {
			expect(repo, ref, "")
		}
		expect(repo, "other", "by no key")
		expect(repo, "attested", "is not signed")
		attested.Push(t, harness.AsAlice(x.Addr), repo, "sha256-"+strings.Repeat("0", 64)+".sig")
		expect(repo, "sha256-"+strings.Repeat("0", 64)+".sig", "is not signed")

		// Without a login, what signs can be read.
		bundles := "--new-bundle-format=" + fmt.Sprint(format == "bundle")
		cosign(slices.Concat([]string{"verify", "--key", file("ours.pub"), "--insecure-ignore-tlog", bundles}, insecure, []string{x.Addr + "/" + repo + ":v1"})...)

		for tag, word := range map[string]string{"v1": ">verified<", "other": ">unverified<", "attested": ">unsigned<"} {
			if _, page := harness.Fetch(t, "GET", "http://"+x.Addr+"/ui/image/"+repo+":"+tag, nil, nil); !strings.Contains(string(page), word) {
				t.Errorf("the page of %s:%s doesn't show %s", repo, tag, word)
			}
		}

		// By logins: a certificate of the deployment for each signature.
		repo = "keyless/" + format
		byLogin := flags
		if format == "tag" {
			byLogin = append(byLogin, "--fulcio-url", logins.fulcio, "--timestamp-server-url", logins.tsa, "--insecure-skip-verify")
		} else {
			byLogin = []string{"--signing-config", logins.services, "--trusted-root", logins.root}
		}
		asLogin := func(verb, email, digest string, more ...string) {
			t.Helper()
			cosign(slices.Concat([]string{verb, "--identity-token", logins.token(email)}, more, login, byLogin, []string{x.Addr + "/" + repo + "@" + digest})...)
		}
		for tag, img := range map[string]*harness.Image{"v1": index, "other": other, "attested": attested} {
			img.Push(t, harness.AsAlice(x.Addr), repo, tag)
			expect(repo, tag, "is not signed")
		}
		asLogin("sign", "ann@example.org", index.Manifest)
		asLogin("sign", "ann@example.org.example.com", other.Manifest)
		asLogin("attest", "ann@example.org", attested.Manifest, "--type", "custom", "--predicate", file("predicate"))
		expect(repo, "v1", "")
		expect(repo, child.Manifest, "")
		expect(repo, "other", "by no key or identity")
		expect(repo, "attested", "is not signed")
		sign("sign", "ours", other.Manifest)
		expect(repo, "other", "")
		cosign(slices.Concat([]string{
			"verify", "--trusted-root", logins.root, "--certificate-oidc-issuer", logins.URL, "--certificate-identity", "ann@example.org",
			"--use-signed-timestamps", "--insecure-ignore-tlog", "--insecure-ignore-sct", bundles,
		}, insecure, []string{x.Addr + "/" + repo + ":v1"})...)
	}
	harness.NewImage(t, 6, 1, 2000).Push(t, harness.AsAlice(x.Addr), "watched/app", "v1")
	if status, warning, body := get("watched/app", "v1"); status != 200 || !strings.Contains(warning, "is not signed") {
		t.Errorf("watched/app:v1: %d %q %s", status, warning, body)
	}
}
