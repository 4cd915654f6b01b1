package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// front is a way to a registry: straight, or over TLS behind nginx.
type front struct {
	backend string // the registry's own address
	addr    string // what clients are told
	ca      string // the certificate to trust, "" = no TLS
}

// fronts serves a fresh root and gives both ways to it.
func fronts(t *testing.T) map[string]front {
	t.Helper()
	addr := startSlipway(t, t.TempDir()).addr
	return map[string]front{"plain": {backend: addr, addr: addr}, "TLS": startNginx(t, addr)}
}

const nginxConfig = `daemon off; user root; pid nginx.pid; error_log stderr warn; worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen %ADDR% ssl;
    ssl_certificate %CERT%;
    ssl_certificate_key %KEY%;
    client_max_body_size 0;
    location / {
      proxy_pass http://%BACKEND%;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering off;
      proxy_buffering off;
    }
  }
}
`

// startNginx ends TLS in front of a registry, as deployments do.
func startNginx(t *testing.T, backend string) front {
	t.Helper()
	cert, key := programtest.Certificate(t)
	f := front{backend: backend, addr: programtest.FreeAddr(t), ca: cert}
	dir := t.TempDir()
	text := strings.NewReplacer("%ADDR%", f.addr, "%CERT%", cert, "%KEY%", key, "%BACKEND%", backend).Replace(nginxConfig)
	config := filepath.Join(dir, "nginx.conf")
	writeFile(t, config, []byte(text))
	// nginx answers a plain request on a port with TLS, too: it is up.
	start(t, f.addr, exec.Command(programtest.Tool(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config))
	return f
}

// craneCommand is crane, which trusts nobody but the front's certificate.
func (f front) craneCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if f.ca == "" {
		return exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), append([]string{"--insecure"}, args...)...)
	}
	cmd := exec.CommandContext(t.Context(), programtest.Tool(t, "crane"), args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+f.ca, "SSL_CERT_DIR="+filepath.Dir(f.ca))
	return cmd
}

func (f front) crane(t testing.TB, args ...string) {
	t.Helper()
	if out, err := f.craneCommand(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("crane %s: %v\n%s", strings.Join(args, " "), err, programtest.Tail(string(out)))
	}
}

// certDir is a directory as docker, podman and skopeo want it for a registry.
func (f front) certDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	copyFile(t, f.ca, filepath.Join(dir, "ca.crt"))
	return dir
}

func (f front) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in " + f.ca)
	}
	return pool
}

// Clients that verify certificates push and pull through a reverse proxy that
// ends TLS; the URLs that they are sent to are the proxy's.
func TestClientsBehindNginx(t *testing.T) {
	f := startNginx(t, startSlipway(t, t.TempDir()).addr)
	img := newIndex(t, newImage(t, 3, 3, 200_000), newImage(t, 4, 1, 10_000))
	layout := img.layout(t, "v1")
	certs := "--dest-cert-dir=" + f.certDir(t)

	t.Run("locations", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots(t)}}}
		for _, query := range []string{"", "?digest=" + emptyDigest} {
			resp, err := client.Post("https://"+f.addr+"/v2/where/blobs/uploads/"+query, "application/octet-stream", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if at := resp.Header.Get("Location"); !strings.HasPrefix(at, "https://"+f.addr+"/v2/where/blobs/") {
				t.Errorf("POST %s: %s, Location %q, want it at https://%s", query, resp.Status, at, f.addr)
			}
		}
	})
	t.Run("crane", func(t *testing.T) {
		f.crane(t, "push", layout, f.addr+"/crane/app:v1")
		f.crane(t, "validate", "--remote", f.addr+"/crane/app:v1")
		f.crane(t, "copy", f.addr+"/crane/app:v1", f.addr+"/crane/copy:v1")
		img.pulls(t, f.backend, "crane/copy", "v1")
	})
	t.Run("skopeo", func(t *testing.T) {
		runTool(t, "skopeo", "--insecure-policy", "copy", "--all", certs, "oci:"+layout+":v1", "docker://"+f.addr+"/skopeo/app:v1")
		img.pulls(t, f.backend, "skopeo/app", "v1")
	})
	t.Run("regctl", func(t *testing.T) {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(t.TempDir(), "regctl.json")
		writeFile(t, config, mustJSON(t, map[string]any{"hosts": map[string]any{f.addr: map[string]string{"tls": "enabled", "regcert": string(pem)}}}))
		if out, err := tryTool(t, []string{"REGCTL_CONFIG=" + config}, "regctl", "image", "copy", "ocidir://"+layout+":v1", f.addr+"/regctl/app:v1"); err != nil {
			t.Fatalf("regctl image copy: %v\n%s", err, out)
		}
		img.pulls(t, f.backend, "regctl/app", "v1")
	})
	t.Run("podman", func(t *testing.T) {
		podman := podmanArgs(t, "podman")
		id := lastLine(podman("pull", "-q", "--cert-dir", f.certDir(t), f.addr+"/skopeo/app:v1"))
		podman("push", "-q", "--cert-dir", f.certDir(t), id, "docker://"+f.addr+"/podman/app:v1")
	})
	t.Run("containerd", func(t *testing.T) {
		ctr := startContainerd(t)
		// Without a file for the host, ctr takes a loopback address for plain HTTP.
		hosts := t.TempDir()
		if err := os.Mkdir(filepath.Join(hosts, f.addr), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(hosts, f.addr, "hosts.toml"), []byte("[host.\"https://"+f.addr+"\"]\nca = \""+f.ca+"\"\n"))
		ctr("content", "fetch", "--hosts-dir", hosts, "--all-platforms", f.addr+"/skopeo/app:v1")
		ctr("images", "tag", f.addr+"/skopeo/app:v1", f.addr+"/ctr/app:v1")
		ctr("images", "push", "--hosts-dir", hosts, f.addr+"/ctr/app:v1")
		img.pulls(t, f.backend, "ctr/app", "v1")
	})
	t.Run("docker", func(t *testing.T) {
		e := startEngine(t)
		e.busybox()
		ref := f.addr + "/docker/app:v1"
		e.build(ref)
		e.run("push", ref)
		e.run("rmi", ref)
		e.run("pull", ref)
	})
	t.Run("helm", func(t *testing.T) {
		dir := t.TempDir()
		runTool(t, "helm", "create", filepath.Join(dir, "hello"))
		runTool(t, "helm", "package", filepath.Join(dir, "hello"), "--version", "0.1.0", "-d", dir)
		runTool(t, "helm", "push", "--ca-file", f.ca, filepath.Join(dir, "hello-0.1.0.tgz"), "oci://"+f.addr+"/charts")
		runTool(t, "helm", "show", "chart", "--ca-file", f.ca, "oci://"+f.addr+"/charts/hello")
	})
}
