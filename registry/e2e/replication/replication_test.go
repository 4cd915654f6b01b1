package replication

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// site is a registry with targets.
type site struct {
	addr, config string
	*harness.Process
}

// newSite configures a registry that copies to the targets: flow mappings without braces.
func newSite(t *testing.T, targets ...string) *site {
	s := &site{addr: programtest.FreeAddr(t), config: filepath.Join(t.TempDir(), "config.yml")}
	s.write(t, t.TempDir(), targets...)
	s.start(t)
	return s
}

func (s *site) write(t *testing.T, root string, targets ...string) {
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\n"+
		"http: {addr: %q, secret: the-secret-of-uploads}\nreplication:\n  targets:\n", root, s.addr)
	for _, target := range targets {
		text += "  - {" + target + ", repositories: ['**']}\n"
	}
	harness.WriteFile(t, s.config, []byte(text))
}

func (s *site) start(t *testing.T) { s.Process = harness.Serve(t, s.addr, nil, s.config) }

// row is a target in `registry replication list`.
type row struct {
	Name, Error string
	Waiting     int
	Behind      time.Time
}

// list returns the target's row.
func (s *site) list(t *testing.T, name string) row {
	t.Helper()
	out, code := harness.Run(t, nil, "replication", "list", "--json", "--config", s.config)
	var rows []row
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	at := slices.IndexFunc(rows, func(r row) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("no target %s: %s", name, out)
	}
	return rows[at]
}

// digest is that of a tag, "" if there is none.
func digest(t *testing.T, addr, repo, tag string) string {
	t.Helper()
	resp, _ := harness.Fetch(t, "HEAD", "http://"+addr+"/v2/"+repo+"/manifests/"+tag, harness.AcceptAll, nil)
	return resp.Header.Get("Docker-Content-Digest")
}

// pushReferrer pushes an artifact that refers to the manifest, and returns its digest.
func pushReferrer(t *testing.T, addr, repo string, img *harness.Image, text string) string {
	t.Helper()
	config, layer := []byte("{}"), []byte(text)
	harness.PushBlob(t, addr, repo, harness.DigestOf(config), config)
	harness.PushBlob(t, addr, repo, harness.DigestOf(layer), layer)
	body := harness.JSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": harness.TypeManifest, "artifactType": "application/vnd.example.sbom",
		"config":  harness.Descriptor{MediaType: "application/vnd.oci.empty.v1+json", Digest: harness.DigestOf(config), Size: len(config)},
		"layers":  []harness.Descriptor{{MediaType: "text/plain", Digest: harness.DigestOf(layer), Size: len(layer)}},
		"subject": harness.Descriptor{MediaType: img.MediaType(t), Digest: img.Manifest, Size: len(img.Blobs[img.Manifest])},
	})
	harness.PushManifest(t, addr, repo, harness.DigestOf(body), body)
	return harness.DigestOf(body)
}

// lists reports whether the registry lists the referrer, by its API or by the tag that stands for it.
func lists(t *testing.T, addr, repo string, img *harness.Image, referrer string) bool {
	t.Helper()
	resp, body := harness.Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/referrers/"+img.Manifest, nil, nil)
	if resp.StatusCode != 200 {
		_, body = harness.Fetch(t, "GET", "http://"+addr+"/v2/"+repo+"/manifests/"+strings.Replace(img.Manifest, ":", "-", 1), harness.AcceptAll, nil)
	}
	return strings.Contains(string(body), referrer)
}

// Images, indexes and referrers reach a second registry with a login and distribution, under a path there. What is pushed
// while a target is away comes when it is back, also after a kill in between. Deletions follow where they are wanted.
func TestReplication(t *testing.T) {
	passwords := filepath.Join(t.TempDir(), "htpasswd")
	harness.WriteUser(t, passwords, "copier", "secret")
	second := harness.StartRegistry(t, t.TempDir(), "REGISTRY_AUTH_HTPASSWD_PATH="+passwords, "REGISTRY_AUTH_HTPASSWD_REALM=second")
	secondAs := "copier:secret@" + second.Addr
	peer := harness.StartPeer(t, harness.Distribution2.Tool, t.TempDir())
	tunnel := harness.NewTunnel(t, peer.Addr)
	targets := []string{
		"name: second, url: 'http://" + second.Addr + "', username: copier, password: secret, deletions: true",
		"name: peer, url: 'http://" + tunnel.Addr + "/copies/of'",
	}
	root := t.TempDir()
	s := &site{addr: programtest.FreeAddr(t), config: filepath.Join(t.TempDir(), "config.yml")}
	s.write(t, root, targets...)
	s.start(t)
	img, other := harness.NewImage(t, 1, 2, 30_000), harness.NewImage(t, 2, 2, 30_000)
	index := harness.NewIndex(t, img, other)
	index.Push(t, s.addr, "team/app", "multi")
	img.Push(t, s.addr, "team/app", "v1")
	sbom := pushReferrer(t, s.addr, "team/app", img, "an SBOM")
	harness.Eventually(t, "the referrer is at both targets", func() bool {
		return lists(t, secondAs, "team/app", img, sbom) && lists(t, peer.Addr, "copies/of/team/app", img, sbom)
	})
	for _, at := range []struct{ addr, repo string }{{secondAs, "team/app"}, {peer.Addr, "copies/of/team/app"}} {
		harness.Eventually(t, "both tags are at "+at.addr, func() bool {
			return digest(t, at.addr, at.repo, "v1") == img.Manifest && digest(t, at.addr, at.repo, "multi") == index.Manifest
		})
		index.Pulls(t, at.addr, at.repo, "multi")
	}

	tunnel.Cut()
	other.Push(t, s.addr, "team/app", "v1")
	img.Push(t, s.addr, "team/app", "v2")
	harness.DeleteReference(t, s.addr, "team/app", "multi")
	harness.Eventually(t, "the second registry follows", func() bool {
		return digest(t, secondAs, "team/app", "v1") == other.Manifest && digest(t, secondAs, "team/app", "v2") == img.Manifest && digest(t, secondAs, "team/app", "multi") == ""
	})
	harness.Eventually(t, "the error is shown", func() bool {
		row := s.list(t, "peer")
		return strings.Contains(row.Error, "can't be reached") && row.Waiting > 0 && !row.Behind.IsZero()
	})
	s.Kill()
	tunnel.Restore()
	if got := digest(t, peer.Addr, "copies/of/team/app", "v1"); got != img.Manifest {
		t.Errorf("v1 has moved while its target was away: %s", got)
	}
	s.start(t)
	harness.Eventually(t, "what waited is copied", func() bool {
		return digest(t, peer.Addr, "copies/of/team/app", "v1") == other.Manifest && digest(t, peer.Addr, "copies/of/team/app", "v2") == img.Manifest
	})
	harness.Eventually(t, "nothing waits", func() bool {
		row := s.list(t, "peer")
		return row.Waiting == 0 && row.Error == "" && row.Behind.IsZero()
	})
	if digest(t, peer.Addr, "copies/of/team/app", "multi") != index.Manifest {
		t.Error("a tag was deleted at a target without deletions")
	}

	s.Kill()
	s.write(t, root, strings.Replace(targets[0], "password: secret", "password: outdated", 1))
	out, code := harness.Run(t, nil, "replication", "sync", "--config", s.config)
	if code != 1 || !strings.Contains(out, "401") || strings.Contains(out, "outdated") {
		t.Errorf("with a wrong password: exit code %d, %s", code, out)
	}
	if row := s.list(t, "second"); !strings.Contains(row.Error, "401") || row.Waiting == 0 {
		t.Errorf("with a wrong password: %+v", row)
	}
	s.write(t, root, targets...)
	harness.DeleteReference(t, secondAs, "team/app", "v1") // by somebody else
	if out, code := harness.Run(t, nil, "replication", "sync", "second", "--config", s.config); code != 0 || digest(t, secondAs, "team/app", "v1") != other.Manifest {
		t.Errorf("a comparison repairs the target: exit code %d, %s", code, out)
	}
}

// A target with TLS and a token server of its own takes what the login may push; what it may not stays an error of
// that repository.
func TestReplication_Token(t *testing.T) {
	cert, key := programtest.Certificate(t, "127.0.0.1")
	root := t.TempDir()
	password := filepath.Join(root, "password")
	harness.WriteTeam(t, filepath.Join(root, "htpasswd"))
	harness.WriteFile(t, password, []byte("secret of carl\n"))
	addr, config := programtest.FreeAddr(t), filepath.Join(root, "config.yml")
	harness.WriteFile(t, config, fmt.Appendf(nil, "version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %[1]s/images}}\n"+
		"http: {addr: %[2]q, host: 'https://%[2]s', secret: the-secret-of-uploads, tls: {certificate: %[3]s, key: %[4]s}}\n"+
		"auth: {htpasswd: {path: %[1]s/htpasswd}, service: builtin}\n%[5]s", root, addr, cert, key, harness.TeamRules))
	harness.Serve(t, addr, nil, config)
	s := newSite(t, "name: team, url: 'https://"+addr+"', username: carl, password_file: "+password+", ca: "+cert)
	img := harness.NewImage(t, 1, 2, 30_000)
	img.Push(t, s.addr, "another/app", "v1")
	img.Push(t, s.addr, "carl/app", "v1")
	harness.Eventually(t, "what the login may not push is an error", func() bool {
		row := s.list(t, "team")
		return row.Waiting > 0 && strings.Contains(row.Error, "another/app") && strings.Contains(row.Error, "403")
	})
	harness.Eventually(t, "what it may push is there", func() bool {
		out, err := harness.TryTool(t, []string{"SSL_CERT_FILE=" + cert}, "crane", "digest", addr+"/carl/app:v1")
		return err == nil && strings.Contains(out, img.Manifest)
	})
}

// Registries that are killed at any moment, on both sides, end with the same content.
func TestFull_Replication_Kills(t *testing.T) {
	targetRoot, targetAddr := t.TempDir(), programtest.FreeAddr(t)
	config := harness.WritePeerConfig(t, targetAddr, targetRoot)
	serveTarget := func() *harness.Process {
		cmd := exec.Command(programtest.Tool(t, harness.Distribution3.Tool), "serve", config)
		cmd.Env = []string{"OTEL_TRACES_EXPORTER=none"}
		return harness.Start(t, targetAddr, cmd)
	}
	target := serveTarget()
	s := newSite(t, "name: peer, url: 'http://"+targetAddr+"'")
	const rounds = 12
	images, referrers := make([]*harness.Image, rounds), make([]string, rounds)
	for i := range rounds {
		images[i] = harness.NewImage(t, uint64(i), 3, 2_000_000)
		images[i].Push(t, s.addr, "app", "latest")
		images[i].Push(t, s.addr, "app", fmt.Sprint("v", i))
		referrers[i] = pushReferrer(t, s.addr, "app", images[i], fmt.Sprint("SBOM ", i))
		time.Sleep(time.Duration(i) * 100 * time.Millisecond) // in the middle of the copy, wherever that is
		if i%2 == 0 {
			target.Kill()
			target = serveTarget()
		} else {
			s.Kill()
			s.start(t)
		}
	}
	harness.Eventually(t, "nothing waits", func() bool { return s.list(t, "peer").Waiting == 0 })
	if out, code := harness.Run(t, nil, "replication", "sync", "--config", s.config); code != 0 && !strings.Contains(out, "another process") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for i, img := range images {
		img.Pulls(t, targetAddr, "app", fmt.Sprint("v", i))
		if !lists(t, targetAddr, "app", img, referrers[i]) {
			t.Errorf("the referrer of v%d is not listed", i)
		}
	}
	if got := digest(t, targetAddr, "app", "latest"); got != images[rounds-1].Manifest {
		at := slices.IndexFunc(images, func(img *harness.Image) bool { return img.Manifest == got })
		t.Errorf("latest is that of round %d, want %d", at, rounds-1)
	}
}
