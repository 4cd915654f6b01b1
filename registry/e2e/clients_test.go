package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An unmodified client pushes an image and gets the same bytes back.
func TestClientsRoundTrip(t *testing.T) {
	addr := startSlipway(t, t.TempDir()).addr
	images := map[string]*image{
		"image": newImage(t, 1, 3, 200_000),
		"index": newIndex(t, newImage(t, 2, 2, 50_000), newImage(t, 3, 1, 10_000)),
	}
	for kind, img := range images {
		t.Run("skopeo "+kind, func(t *testing.T) {
			ref := "docker://" + addr + "/skopeo/" + kind + ":v1"
			runTool(t, "skopeo", "--insecure-policy", "copy", "--all", "--dest-tls-verify=false", "oci:"+img.layout(t, "v1")+":v1", ref)
			back := t.TempDir()
			runTool(t, "skopeo", "--insecure-policy", "copy", "--all", "--src-tls-verify=false", ref, "oci:"+back+":v1")
			img.sameLayout(t, back)
			img.pulls(t, addr, "skopeo/"+kind, "v1")
			if out := runTool(t, "skopeo", "list-tags", "--tls-verify=false", "docker://"+addr+"/skopeo/"+kind); !strings.Contains(out, `"v1"`) {
				t.Errorf("skopeo list-tags does not show v1: %s", out)
			}
			runTool(t, "skopeo", "delete", "--tls-verify=false", ref)
			if out, err := tryTool(t, nil, "skopeo", "inspect", "--tls-verify=false", ref); err == nil {
				t.Errorf("skopeo inspect still finds the deleted image: %s", out)
			}
		})
		t.Run("crane "+kind, func(t *testing.T) {
			repo := addr + "/crane/" + kind
			runTool(t, "crane", "--insecure", "push", img.layout(t, "v1"), repo+":v1")
			if got := strings.TrimSpace(runTool(t, "crane", "--insecure", "digest", repo+":v1")); got != img.manifest {
				t.Errorf("crane digest = %s, want %s", got, img.manifest)
			}
			runTool(t, "crane", "--insecure", "validate", "--remote", repo+":v1")
			back := t.TempDir()
			runTool(t, "crane", "--insecure", "pull", "--format=oci", repo+":v1", back)
			img.sameLayout(t, back)
			// A copy into another repository mounts what is there.
			runTool(t, "crane", "--insecure", "copy", repo+":v1", addr+"/crane/copy-"+kind+":v2")
			img.pulls(t, addr, "crane/copy-"+kind, "v2")
			if got := runTool(t, "crane", "--insecure", "catalog", addr); !strings.Contains(got, "crane/copy-"+kind) {
				t.Errorf("crane catalog does not show the copy: %s", got)
			}
		})
		t.Run("regctl "+kind, func(t *testing.T) {
			env := regctlHome(t, addr)
			ref := addr + "/regctl/" + kind + ":v1"
			if out, err := tryTool(t, env, "regctl", "image", "copy", "ocidir://"+img.layout(t, "v1")+":v1", ref); err != nil {
				t.Fatalf("regctl image copy: %v\n%s", err, out)
			}
			back := t.TempDir()
			if out, err := tryTool(t, env, "regctl", "image", "copy", ref, "ocidir://"+back+":v1"); err != nil {
				t.Fatalf("regctl image copy back: %v\n%s", err, out)
			}
			img.sameLayout(t, back)
			if out, err := tryTool(t, env, "regctl", "tag", "delete", ref); err != nil {
				t.Errorf("regctl tag delete: %v\n%s", err, out)
			}
		})
	}
}

// regctl keeps its settings in a file; say there that the registry has no TLS.
func regctlHome(t *testing.T, addr string) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "regctl.json")
	writeFile(t, config, []byte(`{"hosts":{"`+addr+`":{"tls":"disabled"}}}`))
	return []string{"REGCTL_CONFIG=" + config}
}

// With htpasswd on, clients log in as they always do, and those who do not
// read what docker's users know.
func TestClientsLogIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "htpasswd")
	make := exec.Command(binary, "htpasswd", "--password-stdin", file, "ada")
	make.Stdin = strings.NewReader("correct horse\n")
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("registry htpasswd: %v\n%s", err, out)
	}
	p := startSlipway(t, filepath.Join(dir, "root"), "REGISTRY_AUTH_HTPASSWD_REALM=basic-realm", "REGISTRY_AUTH_HTPASSWD_PATH="+file)
	img := newImage(t, 7, 2, 10_000)
	layout := img.layout(t, "v1")

	env := []string{"DOCKER_CONFIG=" + t.TempDir(), "HOME=" + t.TempDir()}
	if out, err := tryTool(t, env, "crane", "--insecure", "push", layout, p.addr+"/a:v1"); err == nil || !strings.Contains(out, "401 Unauthorized") {
		t.Errorf("crane push without a login: %v\n%s\nwant 401", err, out)
	}
	if out, err := tryTool(t, env, "crane", "--insecure", "auth", "login", p.addr, "-u", "ada", "-p", "correct horse"); err != nil {
		t.Fatalf("crane auth login: %v\n%s", err, out)
	}
	if out, err := tryTool(t, env, "crane", "--insecure", "push", layout, p.addr+"/a:v1"); err != nil {
		t.Fatalf("crane push after the login: %v\n%s", err, out)
	}
	for creds, want := range map[string]bool{"ada:correct horse": true, "ada:wrong": false, "eve:correct horse": false} {
		_, err := tryTool(t, nil, "skopeo", "inspect", "--tls-verify=false", "--creds", creds, "docker://"+p.addr+"/a:v1")
		if ok := err == nil; ok != want {
			t.Errorf("skopeo inspect as %s: error %v, want success %v", creds, err, want)
		}
	}
	if out := p.Output(); strings.Contains(out, "correct horse") {
		t.Error("the password is in the log")
	}
	if _, err := os.Stat(filepath.Join(dir, "root", "docker")); err != nil {
		t.Error(err)
	}
}
