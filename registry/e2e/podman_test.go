package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// podmanArgs is podman or buildah, which fails the test if it fails.
func podmanArgs(t *testing.T, name string) func(args ...string) string {
	t.Helper()
	try := podmanCommand(t, name, nil)
	return func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, programtest.Tail(out))
		}
		return out
	}
}

// podmanCommand has its storage in a directory of the test; vfs needs nothing of the kernel.
func podmanCommand(t *testing.T, name string, env []string) func(args ...string) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "podman") // the path of its runroot has a short limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return func(args ...string) (string, error) {
		common := []string{"--storage-driver=vfs", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run")}
		return tryTool(t, env, name, append(common, args...)...)
	}
}

func TestPodman(t *testing.T) {
	addr := startSlipway(t, t.TempDir()).addr
	podman := podmanArgs(t, "podman")
	amd, arm := newImage(t, 3, 3, 50_000), newImage(t, 1, 2, 50_000)

	amd.push(t, addr, "podman/amd", "v1")
	arm.push(t, addr, "podman/arm", "v1")
	id := lastLine(podman("pull", "-q", "--tls-verify=false", addr+"/podman/amd:v1"))
	ref := addr + "/podman/app:v1"
	podman("push", "-q", "--tls-verify=false", id, "docker://"+ref)
	podman("rmi", "--all", "--force")
	if back := lastLine(podman("pull", "-q", "--tls-verify=false", ref)); back != id {
		t.Errorf("podman pulled image %s, pushed %s", back, id)
	}
	if out := podman("search", "--tls-verify=false", "--list-tags", addr+"/podman/app"); !strings.Contains(out, "v1") {
		t.Errorf("podman search --list-tags does not show v1: %s", out)
	}

	// An index that podman puts together goes up with all that it names.
	other := lastLine(podman("pull", "-q", "--tls-verify=false", "--arch", "arm64", addr+"/podman/arm:v1"))
	podman("manifest", "create", "many")
	podman("manifest", "add", "--tls-verify=false", "many", "docker://"+addr+"/podman/amd:v1")
	podman("manifest", "add", "--tls-verify=false", "many", "docker://"+addr+"/podman/arm:v1")
	podman("manifest", "push", "--all", "-q", "--tls-verify=false", "many", "docker://"+addr+"/podman/many:v1")
	for arch, want := range map[string]string{"amd64": id, "arm64": other} {
		podman("rmi", "--all", "--force")
		if back := lastLine(podman("pull", "-q", "--tls-verify=false", "--arch", arch, addr+"/podman/many:v1")); back != want {
			t.Errorf("podman pull --arch %s of the index = %s, want %s", arch, back, want)
		}
	}
}

// buildah builds upon an image of the registry, and pushes what it built.
func TestBuildah(t *testing.T) {
	addr := startSlipway(t, t.TempDir()).addr
	buildah := podmanArgs(t, "buildah")
	dir := t.TempDir()
	copyFile(t, "/bin/busybox", filepath.Join(dir, "busybox"))
	writeFile(t, filepath.Join(dir, "base"), []byte("FROM scratch\nCOPY busybox /bin/sh\nRUN echo first > /first\n"))
	writeFile(t, filepath.Join(dir, "top"), []byte("FROM "+addr+"/buildah/base:1\nRUN test -s /first && echo second > /second\nLABEL made=here\n"))
	for _, format := range []string{"oci", "docker"} {
		base, top := addr+"/buildah/base:1", addr+"/buildah/"+format+":1"
		build := []string{"build", "-q", "--isolation=chroot", "--network=host", "--layers", "--tls-verify=false", "--format", format}
		buildah(append(build, "-f", filepath.Join(dir, "base"), "-t", base, dir)...)
		buildah("push", "-q", "--tls-verify=false", base)
		buildah("rmi", "--all", "--force")
		id := lastLine(buildah(append(build, "-f", filepath.Join(dir, "top"), "-t", top, dir)...))
		buildah("push", "-q", "--tls-verify=false", top)
		buildah("rmi", "--all", "--force")
		if back := lastLine(buildah("pull", "-q", "--tls-verify=false", top)); back != id {
			t.Errorf("buildah pulled the %s image %s, pushed %s", format, back, id)
		}
		if out := runTool(t, "skopeo", "inspect", "--tls-verify=false", "docker://"+top); !strings.Contains(out, `"made": "here"`) {
			t.Errorf("skopeo inspect of what buildah pushed lacks the label: %s", out)
		}
	}
}

// lastLine is the last line that a command wrote: with -q the image's id,
// after warnings.
func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
