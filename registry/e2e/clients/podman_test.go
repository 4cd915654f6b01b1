package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

func TestPodman(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	podman := harness.Podman(t, "podman")
	amd, arm := harness.NewImage(t, 3, 3, 50_000), harness.NewImage(t, 1, 2, 50_000)

	amd.Push(t, addr, "podman/amd", "v1")
	arm.Push(t, addr, "podman/arm", "v1")
	id := harness.LastLine(podman("pull", "-q", "--tls-verify=false", addr+"/podman/amd:v1"))
	ref := addr + "/podman/app:v1"
	podman("push", "-q", "--tls-verify=false", id, "docker://"+ref)
	podman("rmi", "--all", "--force")
	if back := harness.LastLine(podman("pull", "-q", "--tls-verify=false", ref)); back != id {
		t.Errorf("podman pulled image %s, pushed %s", back, id)
	}
	if out := podman("search", "--tls-verify=false", "--list-tags", addr+"/podman/app"); !strings.Contains(out, "v1") {
		t.Errorf("podman search --list-tags does not show v1: %s", out)
	}

	// An index that podman puts together goes up with all that it names.
	other := harness.LastLine(podman("pull", "-q", "--tls-verify=false", "--arch", "arm64", addr+"/podman/arm:v1"))
	podman("manifest", "create", "many")
	podman("manifest", "add", "--tls-verify=false", "many", "docker://"+addr+"/podman/amd:v1")
	podman("manifest", "add", "--tls-verify=false", "many", "docker://"+addr+"/podman/arm:v1")
	podman("manifest", "push", "--all", "-q", "--tls-verify=false", "many", "docker://"+addr+"/podman/many:v1")
	for arch, want := range map[string]string{"amd64": id, "arm64": other} {
		podman("rmi", "--all", "--force")
		if back := harness.LastLine(podman("pull", "-q", "--tls-verify=false", "--arch", arch, addr+"/podman/many:v1")); back != want {
			t.Errorf("podman pull --arch %s of the index = %s, want %s", arch, back, want)
		}
	}
}

// buildah builds upon an image of the registry, and pushes what it built.
func TestBuildah(t *testing.T) {
	addr := harness.StartRegistry(t, t.TempDir()).Addr
	buildah := harness.Podman(t, "buildah")
	dir := t.TempDir()
	harness.CopyFile(t, "/bin/busybox", filepath.Join(dir, "busybox"))
	harness.WriteFile(t, filepath.Join(dir, "base"), []byte("FROM scratch\nCOPY busybox /bin/sh\nRUN echo first > /first\n"))
	harness.WriteFile(t, filepath.Join(dir, "top"), []byte("FROM "+addr+"/buildah/base:1\nRUN test -s /first && echo second > /second\nLABEL made=here\n"))
	for _, format := range []string{"oci", "docker"} {
		base, top := addr+"/buildah/base:1", addr+"/buildah/"+format+":1"
		build := []string{"build", "-q", "--isolation=chroot", "--network=host", "--layers", "--tls-verify=false", "--format", format}
		buildah(append(build, "-f", filepath.Join(dir, "base"), "-t", base, dir)...)
		buildah("push", "-q", "--tls-verify=false", base)
		buildah("rmi", "--all", "--force")
		id := harness.LastLine(buildah(append(build, "-f", filepath.Join(dir, "top"), "-t", top, dir)...))
		buildah("push", "-q", "--tls-verify=false", top)
		buildah("rmi", "--all", "--force")
		if back := harness.LastLine(buildah("pull", "-q", "--tls-verify=false", top)); back != id {
			t.Errorf("buildah pulled the %s image %s, pushed %s", format, back, id)
		}
		if out := harness.RunTool(t, "skopeo", "inspect", "--tls-verify=false", "docker://"+top); !strings.Contains(out, `"made": "here"`) {
			t.Errorf("skopeo inspect of what buildah pushed lacks the label: %s", out)
		}
	}
}
