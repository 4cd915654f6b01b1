// Package pages proves that people with different rights can use the pages, in a real browser.
package pages

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/browsertest"
	"slipway/shared/oidctest"
	"slipway/shared/programtest"
)

func TestMain(m *testing.M) { harness.Main(m) }

// rules are those of an administrator (alice), a developer (bob) and a reader (carl).
const rules = `
access:
  rules:
    - {who: [alice], repositories: ["**"], allow: [admin]}
    - {who: ["oidc-group:leads"], repositories: ["web/**"], allow: [admin]}
    - {who: [bob, "oidc-group:developers"], repositories: ["web/**"], allow: [push, tag-move, delete, list]}
    - {who: [carl], repositories: ["web/**"], allow: [pull, list]}
    - {who: [anyone], repositories: ["public/**"], allow: [pull, list]}
`

// visitor is a browser at the pages of a registry.
type visitor struct{ *browsertest.Browser }

func visit(t *testing.T, x *harness.Process) visitor {
	t.Helper()
	return visitor{browsertest.New(t, "http://"+x.Addr)}
}

func (b visitor) login(user string) {
	b.Helper()
	b.Get("/ui/login")
	b.Fill("#name", user)
	b.Fill("#password", "secret of "+user)
	b.Click("form button.primary")
	b.Sees("Log out")
}

func (b visitor) logout() {
	b.Helper()
	b.Click("form[action$=logout] button")
	b.Sees("You are logged out.")
}

// seesNot waits for some text that the page has, and wants others not to be there.
func (b visitor) seesNot(there string, absent ...string) {
	b.Helper()
	b.Sees(there)
	for _, text := range absent {
		if page := b.Text(); strings.Contains(page, text) {
			b.Errorf("the page shows %q:\n%s", text, page)
		}
	}
}

// reloadsUntil loads a page until it has the text.
func (b visitor) reloadsUntil(path, text string) {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(b.Text(), text); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%s never shows %q:\n%s", path, text, b.Text())
		}
		b.Get(path)
	}
}

// evil is a script that an attacker could try to make the pages run. It reports that it runs.
const evil = `<img src=x onerror="window.evil=1">"'><script>window.evil=1</script>`

// stock pushes what the tests look at: images of several repositories, one with hostile texts
// and things attached to it.
func stock(t *testing.T, x *harness.Process) {
	t.Helper()
	addr := harness.AsAlice(x.Addr)
	index := harness.NewIndex(t, harness.ImageOf(t, "amd64", harness.Tar(t, "app", []byte("one"))), harness.ImageOf(t, "arm64", harness.Tar(t, "app", []byte("two"))))
	next := harness.NewIndex(t, harness.ImageOf(t, "amd64", harness.Tar(t, "app", []byte("three"))), harness.ImageOf(t, "arm64", harness.Tar(t, "app", []byte("four"))))
	for _, repo := range []string{"web/app", "web/intern/tool", "public/base", "secret/plans"} {
		index.Push(t, addr, repo, "1.0")
		next.Push(t, addr, repo, "1.1")
	}
	push := func(tag, configType string, config, manifest map[string]any, layer string) harness.Descriptor {
		t.Helper()
		img := &harness.Image{Blobs: map[string][]byte{}}
		l := img.Add("application/spdx+json", []byte(layer))
		l.Annotations = map[string]string{"org.opencontainers.image.title": evil}
		manifest["schemaVersion"], manifest["mediaType"] = 2, harness.TypeManifest
		manifest["config"], manifest["layers"] = img.Add(configType, harness.JSON(t, config)), []harness.Descriptor{l}
		d := img.Add(harness.TypeManifest, harness.JSON(t, manifest))
		img.Manifest = d.Digest
		img.Push(t, addr, "web/app", cmp.Or(tag, d.Digest))
		return d
	}
	subject := push("evil", harness.TypeConfig, map[string]any{
		"created": "2026-01-02T03:04:05Z", "os": "linux", "architecture": "amd64", "author": evil, "history": []any{map[string]any{"created_by": evil}},
		"config": map[string]any{"Env": []string{evil + "=" + evil}, "Labels": map[string]string{evil: evil, "a-long-label": strings.Repeat("long", 80)}, "Entrypoint": []string{evil}, "User": evil},
	}, map[string]any{"annotations": map[string]string{evil: "javascript:window.evil=1"}}, "layer")
	const empty = "application/vnd.oci.empty.v1+json"
	var findings []string
	for i := range 12_345 {
		findings = append(findings, fmt.Sprintf(`{"ruleId":"l","level":"note","message":{"text":"%d"}}`, i))
	}
	reports := []string{
		"{", `{"runs":[{"tool":{"driver":{"name":"a scanner","version":"1.2.3"}},"results":[]}]}`,
		`{"runs":[{"tool":{"driver":{"name":` + string(harness.JSON(t, evil)) + `,"version":` + string(harness.JSON(t, strings.Repeat("long", 80))) + `,"rules":[
			{"id":"c","properties":{"security-severity":"9.8"}},{"id":"h","properties":{"security-severity":"7.5"}},{"id":"m","properties":{"security-severity":"5.5"}},{"id":"u","properties":{"security-severity":"0"}}
		]}},"results":[{"ruleId":"c"},{"ruleId":"h"},{"ruleId":"m"},{"ruleId":"u"},` + strings.Join(findings, ",") + `]}]}`,
	}
	for _, report := range reports {
		for _, of := range []harness.Descriptor{subject, {MediaType: harness.TypeIndex, Digest: index.Manifest, Size: len(index.Blobs[index.Manifest])}} {
			push("", empty, map[string]any{}, map[string]any{"artifactType": "application/sarif+json", "subject": of}, report)
		}
	}
	push("sbom", empty, map[string]any{}, map[string]any{"artifactType": "application/spdx+json", "subject": subject}, `{"spdxVersion":"SPDX-2.3"}`)
}

// files is a storage of its own.
func files(t *testing.T) string {
	return "{filesystem: {rootdirectory: " + t.TempDir() + "}, " + undo + "}"
}

// bucket is an empty bucket.
func bucket(t *testing.T) string {
	server, _ := harness.S3Bucket(t, s3test.MinIO)
	return fmt.Sprintf("{s3: {bucket: images, region: us-east-1, regionendpoint: %q, forcepathstyle: true, secure: false, accesskey: %s, secretkey: %s}, %s}",
		server.URL(), s3test.AccessKey, s3test.SecretKey, undo)
}

const undo = "delete: {enabled: true, keep: 48h}, maintenance: {immutable: [{repositories: ['public/**'], tags: ['1[.]0']}], retention: {rules: [{repositories: ['web/**'], tags: ['1[.]1'], action: delete}]}}"

// start serves a storage. more is what the auth section has beside the password file, by the address.
func start(t *testing.T, storage string, more func(addr string) string) *harness.Process {
	t.Helper()
	dir, addr := t.TempDir(), programtest.FreeAddr(t)
	passwords, file := filepath.Join(dir, "htpasswd"), filepath.Join(dir, "config.yml")
	harness.WriteTeam(t, passwords)
	harness.WriteFile(t, file, []byte("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: "+storage+"\n"+
		"http: {addr: '"+addr+"', secret: shared-by-all-replicas}\naudit: {file: "+filepath.Join(dir, "audit.log")+"}\n"+
		"auth: {htpasswd: {path: "+passwords+"}, service: builtin"+more(addr)+"}\n"+rules))
	return harness.Serve(t, addr, nil, file)
}

func nothing(string) string { return "" }

// provider starts a real OpenID Connect provider and returns the setting that names it.
func provider(t *testing.T) func(addr string) string {
	return func(registry string) string {
		t.Helper()
		issuer := oidctest.Start(t, "registry", "http://"+registry+"/ui/login/callback")
		return fmt.Sprintf(", oidc: {issuer: '%s', clientid: registry, clientsecret: %s, name: Example ID, scopes: [profile]}", issuer, oidctest.Secret)
	}
}
