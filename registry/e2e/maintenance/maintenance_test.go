package maintenance

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// keepers is a configuration with rules about what stays.
const keepers = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: "%ROOT%"}
  delete: {enabled: true}
  maintenance:
    immutable:
    - repositories: ["prod/**"]
      tags: ['v\d+']
    retention: # by command only: a server applies enabled rules in its first minute
      rules:
      - repositories: ["ci/*"]
        action: delete
        keep: [latest]
        newest: 2
        pulledwithin: 720h
      - repositories: ["**"]
        tags: ["tmp-.*"]
        action: delete
http: {addr: "%ADDR%", secret: shared-by-all-replicas}
`

// keeper writes that configuration for a root.
func keeper(t *testing.T, root string) (path, addr string) {
	t.Helper()
	addr = programtest.FreeAddr(t)
	path = filepath.Join(t.TempDir(), "keep.yml")
	text := strings.NewReplacer("%ROOT%", root, "%ADDR%", addr).Replace(keepers)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, addr
}

func startWith(t *testing.T, command, path, addr string) *harness.Process {
	t.Helper()
	cmd := exec.Command(command, "serve", path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	return harness.Start(t, addr, cmd)
}

// runOn runs a command of the registry with a configuration.
func runOn(t *testing.T, config string, args ...string) (out string, code int) {
	t.Helper()
	return harness.Run(t, nil, append(args, "--config", config)...)
}

// Retention as an operator meets it: a plan, the application beside the server,
// and a server that notes pulls. Distribution starts with the same file.
func TestRetention(t *testing.T) {
	t.Parallel()
	retention(t, harness.Distribution2)
}

func TestFull_Retention_BesideDistribution3(t *testing.T) {
	t.Parallel()
	retention(t, harness.Distribution3)
}

func retention(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	path, addr := keeper(t, root)
	server := startWith(t, harness.Binary, path, addr)
	images := map[string]*harness.Image{}
	for i, tag := range []string{"latest", "b1", "b2", "b3", "b4"} {
		images[tag] = harness.NewImage(t, uint64(20+i), 1, 20_000)
		images[tag].Push(t, addr, "ci/app", tag)
		time.Sleep(20 * time.Millisecond) // their times differ
	}
	images["b1"].Push(t, addr, "app", "tmp-1")
	images["b1"].Pulls(t, addr, "ci/app", "b1")
	if err := server.Stop(t); err != nil {
		t.Fatal(err)
	}

	plan := planOf(t, path)
	for tag, want := range map[string]string{
		"ci/app:latest": "it is always kept",
		"ci/app:b1":     "it was pulled",
		"ci/app:b2":     "its pulls are unknown",
		"ci/app:b4":     "it is the 1st newest; 2 are kept",
		"app:tmp-1":     "pushed",
	} {
		if !strings.HasPrefix(plan[tag], want) {
			t.Errorf("%s: %q, want %q", tag, plan[tag], want)
		}
	}

	server = startWith(t, harness.Binary, path, addr)
	out, code := runOn(t, path, "retention", "apply", "--yes")
	if code != 0 || !strings.Contains(out, "1 tag deleted, 0 skipped because they were changed concurrently, 5 kept") {
		t.Errorf("apply: %d\n%s", code, out)
	}
	if got := harness.ListTags(t, addr, "ci/app"); got != "b1 b2 b3 b4 latest" {
		t.Errorf("tags of ci/app: %q", got)
	}
	if resp, _ := harness.Fetch(t, "GET", "http://"+addr+"/v2/app/manifests/tmp-1", harness.AcceptAll, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the deleted tag: %s", resp.Status)
	}
	if err := server.Stop(t); err != nil {
		t.Fatal(err)
	}
	startWith(t, programtest.Tool(t, peer.Tool), path, addr)
	images["b1"].Pulls(t, addr, "ci/app", "b1")
}

// The bytes that a plan names are those that a collection of garbage frees
// after it, to the byte, beside a server.
func TestPlannedBytesAreFreed(t *testing.T) {
	t.Parallel()
	path, addr := keeper(t, t.TempDir())
	startWith(t, harness.Binary, path, addr)
	shared, gone, kept := harness.NewImage(t, 51, 2, 30_000), harness.NewImage(t, 52, 2, 30_000), harness.NewImage(t, 53, 1, 10_000)
	shared.Push(t, addr, "a", "tmp-1")
	shared.Push(t, addr, "b", "v1")
	harness.NewIndex(t, gone, shared).Push(t, addr, "a", "tmp-2")
	kept.Push(t, addr, "a", "v1")
	var plan struct{ Deleted, Blobs, Bytes int }
	out, _ := runOn(t, path, "retention", "plan", "--json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || plan.Deleted != 2 || plan.Bytes < 60_000 || plan.Bytes > 65_000 {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	if out, code := runOn(t, path, "retention", "apply", "--yes"); code != 0 {
		t.Fatalf("apply: %d\n%s", code, out)
	}
	var freed struct{ Blobs, Bytes struct{ Freed int } }
	out, _ = runOn(t, path, "garbage-collect", "-m", "--age", "0", "--json")
	if err := json.Unmarshal([]byte(out), &freed); err != nil || freed.Bytes.Freed != plan.Bytes || freed.Blobs.Freed != plan.Blobs {
		t.Errorf("%d bytes in %d blobs were freed, planned %+v; %v", freed.Bytes.Freed, freed.Blobs.Freed, plan, err)
	}
	shared.Pulls(t, addr, "b", "v1")
	kept.Pulls(t, addr, "a", "v1")
	if out, code := runOn(t, path, "verify"); code != 0 {
		t.Errorf("verify: %d\n%s", code, out)
	}
}

// With everything on, a tag goes, its bytes go, and the metrics tell.
func TestSchedules(t *testing.T) {
	t.Parallel()
	root, debug := t.TempDir(), programtest.FreeAddr(t)
	p := harness.StartRegistry(t, root, "REGISTRY_HTTP_DEBUG_ADDR="+debug, "REGISTRY_HTTP_DEBUG_PROMETHEUS_ENABLED=true",
		"REGISTRY_STORAGE_MAINTENANCE_RETENTION={enabled: true, interval: 1s, rules: [{repositories: ['**'], tags: ['tmp.*'], action: delete, newerthan: 2s}]}",
		"REGISTRY_STORAGE_MAINTENANCE_GC={enabled: true, interval: 1s, age: 1s, deleteuntagged: true}",
		"REGISTRY_STORAGE_MAINTENANCE_VERIFY={enabled: true, interval: 1s, rate: 0}")
	addr := p.Addr
	kept, gone := harness.NewImage(t, 61, 1, 10_000), harness.NewImage(t, 62, 1, 10_000)
	kept.Push(t, addr, "app", "v1")
	gone.Push(t, addr, "app", "tmp-1")
	data := filepath.Join(root, "docker/registry/v2/blobs/sha256")
	deadline := time.Now().Add(2 * time.Minute)
	for {
		left, err := filepath.Glob(data + "/*/*/data")
		if err != nil {
			t.Fatal(err)
		}
		_, metrics := harness.Fetch(t, "GET", "http://"+debug+"/metrics", nil, nil)
		text := string(metrics)
		if len(left) == len(kept.Blobs) && strings.Contains(text, "\nregistry_retention_deleted_tags_total 1\n") &&
			strings.Contains(text, `registry_verify_findings{kind="damaged_blob"} 0`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d blobs are left, of which %d are kept\n%s", len(left), len(kept.Blobs), programtest.Tail(text))
		}
		time.Sleep(200 * time.Millisecond)
	}
	kept.Pulls(t, addr, "app", "v1")
	if got := harness.ListTags(t, addr, "app"); got != "v1" {
		t.Errorf("tags are %q", got)
	}
	if strings.Contains(p.Output(), "panic") {
		t.Error("the server panicked")
	}
}

// planOf returns the reason why each tag goes or stays, by "repository:tag".
func planOf(t *testing.T, config string) map[string]string {
	t.Helper()
	out, code := runOn(t, config, "retention", "plan", "--json", "--all")
	var plan struct {
		Deleted  int
		Verdicts []struct{ Repository, Tag, Why string }
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 0 || plan.Deleted != 1 {
		t.Fatalf("plan: %d, %v, %d tags would go\n%s", code, err, plan.Deleted, out)
	}
	why := map[string]string{}
	for _, v := range plan.Verdicts {
		why[v.Repository+":"+v.Tag] = v.Why
	}
	return why
}

// A verification beside the server finds a damaged blob and quarantines it, and the
// next push of the image repairs it.
func TestVerify(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path, addr := keeper(t, root)
	startWith(t, harness.Binary, path, addr)
	img := harness.NewImage(t, 31, 2, 20_000)
	img.Push(t, addr, "app", "v1")
	if out, code := runOn(t, path, "verify"); code != 0 || !strings.Contains(out, "0 problems") {
		t.Fatalf("a healthy storage: %d\n%s", code, out)
	}
	layer := ""
	for d, b := range img.Blobs {
		if len(b) > 10_000 {
			layer = d
		}
	}
	hex := strings.TrimPrefix(layer, "sha256:")
	data := filepath.Join(root, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
	bytes := append([]byte{}, img.Blobs[layer]...)
	bytes[5000] ^= 1
	if err := os.WriteFile(data, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := runOn(t, path, "verify"); code != 1 || !strings.Contains(out, "damaged_blob") || !strings.Contains(out, layer) {
		t.Errorf("a flipped bit: %d\n%s", code, out)
	}
	// The blob and the link to it are quarantined; the image lacks them until it is pushed again.
	if out, code := runOn(t, path, "verify", "--repair"); code != 1 || !strings.Contains(out, "3 problems found, 2 quarantined") {
		t.Errorf("the repair: %d\n%s", code, out)
	}
	if resp, _ := harness.Fetch(t, "HEAD", "http://"+addr+"/v2/app/blobs/"+layer, nil, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD of what was quarantined: %s", resp.Status)
	}
	img.Push(t, addr, "app", "v1")
	img.Pulls(t, addr, "app", "v1")
	if out, code := runOn(t, path, "verify"); code != 0 {
		t.Errorf("after the push: %d\n%s", code, out)
	}
}

// What the registry exports, skopeo and crane read; what they write, it takes in.
func TestExportAndImport(t *testing.T) {
	path, addr := keeper(t, t.TempDir())
	startWith(t, harness.Binary, path, addr)
	idx := harness.NewIndex(t, harness.NewImage(t, 41, 2, 20_000), harness.NewImage(t, 42, 1, 10_000))
	img := harness.NewImage(t, 43, 1, 10_000)
	idx.Push(t, addr, "app", "multi")
	img.Push(t, addr, "app", "v1")
	signed := addr + "/app@" + idx.Manifest
	harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "oci:"+img.Layout(t, "x")+":x", "docker://"+addr+"/app:other")
	artifact := &harness.Image{Blobs: map[string][]byte{}}
	config := artifact.Add("application/vnd.oci.empty.v1+json", []byte("{}"))
	artifact.Manifest = artifact.Add(harness.TypeManifest, harness.JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": harness.TypeManifest, "artifactType": "application/x-signature", "config": config,
		"layers":  []harness.Descriptor{artifact.Add("application/x-signature", []byte("signed "+signed))},
		"subject": harness.Descriptor{MediaType: harness.TypeIndex, Digest: idx.Manifest, Size: len(idx.Blobs[idx.Manifest])},
	})).Digest
	artifact.Push(t, addr, "app", artifact.Manifest)

	for _, target := range []struct{ file, transport string }{{"out", "oci:"}, {"out.tar", "oci-archive:"}} {
		t.Run(target.file, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), target.file)
			if text, code := harness.Run(t, nil, "export", "--config", path, "app", out); code != 0 || !strings.Contains(text, "3 tags, 5 manifests") {
				t.Fatalf("export: %d\n%s", code, text)
			}
			for tag, want := range map[string]*harness.Image{"multi": idx, "v1": img} {
				back := t.TempDir()
				harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--all", target.transport+out+":"+tag, "oci:"+back+":x")
				want.SameLayout(t, back)
			}
			repo := "taken/" + strings.ReplaceAll(target.file, ".", "-")
			if text, code := harness.Run(t, nil, "import", "--config", path, out, repo); code != 0 || !strings.Contains(text, "3 tags, 5 manifests") {
				t.Fatalf("import: %d\n%s", code, text)
			}
			idx.Pulls(t, addr, repo, "multi")
			img.Pulls(t, addr, repo, "v1")
			if _, body := harness.Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/referrers/"+idx.Manifest, nil, nil); !strings.Contains(string(body), artifact.Manifest) {
				t.Errorf("the referrer did not come along: %s", body)
			}
		})
	}
	t.Run("crane reads one tag", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "one")
		if text, code := harness.Run(t, nil, "export", "--config", path, "app:v1", out); code != 0 {
			t.Fatalf("export: %d\n%s", code, text)
		}
		harness.RunTool(t, "crane", "--insecure", "push", out, addr+"/from-crane:v1")
		img.Pulls(t, addr, "from-crane", "v1")
	})
	t.Run("skopeo finds what has Docker's media types", func(t *testing.T) {
		layer := filepath.Join(t.TempDir(), "layer.tar.gz")
		harness.WriteFile(t, layer, harness.Gzip(t, harness.Tar(t, "file", []byte("content"))))
		ref := addr + "/docker:v2"
		harness.RunTool(t, "crane", "--insecure", "append", "-f", layer, "-t", ref)
		harness.RunTool(t, "crane", "--insecure", "tag", ref, "v3")
		out := filepath.Join(t.TempDir(), "out.tar")
		if text, code := harness.Run(t, nil, "export", "--config", path, "docker", out); code != 0 {
			t.Fatalf("export: %d\n%s", code, text)
		}
		harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "oci-archive:"+out+":v3", "docker://"+addr+"/docker-back:v3")
		for _, back := range []string{addr + "/docker-back:v3", ref} {
			if d := harness.RunTool(t, "crane", "--insecure", "digest", back); d != harness.RunTool(t, "crane", "--insecure", "digest", ref) {
				t.Errorf("%s is %s", back, d)
			}
		}
	})
	t.Run("from other tools", func(t *testing.T) {
		dir, archive := t.TempDir(), filepath.Join(t.TempDir(), "a.tar")
		harness.RunTool(t, "crane", "--insecure", "pull", "--format=oci", addr+"/app:multi", dir)
		harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+addr+"/app:v1", "oci-archive:"+archive+":named")
		for from, to := range map[string]string{dir: "foreign:pulled", archive: "foreign"} { // crane's layout names no tag
			if text, code := harness.Run(t, nil, "import", "--config", path, from, to); code != 0 {
				t.Fatalf("import: %d\n%s", code, text)
			}
		}
		img.Pulls(t, addr, "foreign", "named")
	})
	if text, code := runOn(t, path, "usage"); code != 0 || !strings.Contains(text, "REPOSITORY") || !strings.Contains(text, "taken/out-tar") {
		t.Errorf("usage: %d\n%s", code, text)
	}
}

// Docker's user reads why a tag is refused. What this docker saves is no OCI
// layout, but one step away from it.
func TestDockerMeetsRules(t *testing.T) {
	e := harness.StartEngine(t)
	e.Busybox()
	path, addr := keeper(t, t.TempDir())
	startWith(t, harness.Binary, path, addr)
	ref := addr + "/prod/app:v1"
	e.Build(ref)
	e.Run("push", ref)
	e.Run("tag", "busybox:local", ref)
	out, err := e.Try("push", ref)
	if err == nil || !strings.Contains(out, "denied: the tag v1 is immutable and stays at sha256:") {
		t.Errorf("push of another image: %v\n%s", err, out)
	}

	archive := filepath.Join(t.TempDir(), "saved.tar")
	e.Run("save", "-o", archive, "busybox:local")
	if text, code := harness.Run(t, nil, "import", "--config", path, archive, "saved"); code == 0 || !strings.Contains(text, "not an OCI layout") {
		t.Errorf("import of a docker archive: %d\n%s", code, text)
	}
	converted := filepath.Join(t.TempDir(), "converted.tar")
	harness.RunTool(t, "skopeo", "--insecure-policy", "copy", "docker-archive:"+archive, "oci-archive:"+converted+":local")
	if text, code := harness.Run(t, nil, "import", "--config", path, converted, "saved"); code != 0 {
		t.Fatalf("import: %d\n%s", code, text)
	}
	e.Run("pull", addr+"/saved:local")
	if out := e.Run("run", "--rm", "--network", "none", addr+"/saved:local"); strings.TrimSpace(out) != "hello" {
		t.Errorf("the imported image says %q", out)
	}
}
