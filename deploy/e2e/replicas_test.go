package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

// imageNginx is what nginx's own image has in the place of Debian's configuration.
const imageNginx = `user nginx;
worker_processes auto;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path /var/cache/nginx/client_temp;
	proxy_temp_path /var/cache/nginx/proxy_temp;
	fastcgi_temp_path /var/cache/nginx/fastcgi_temp;
	uwsgi_temp_path /var/cache/nginx/uwsgi_temp;
	scgi_temp_path /var/cache/nginx/scgi_temp;
	include /etc/nginx/conf.d/*.conf;
}
`

// makeStores gives the engine look-alikes of minio, redis and nginx: Debian's programs and the one
// of this machine, in one image with three names.
func (e *engine) makeStores(t *testing.T, base string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	put := func(path string, content []byte, mode os.FileMode) {
		t.Helper()
		path = filepath.Join(dir, "rootfs", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]string{"redis-server": "usr/bin/redis-server", "redis-cli": "usr/bin/redis-cli", "nginx": "usr/sbin/nginx", "minio": "usr/bin/minio"}
	library := regexp.MustCompile(`(?m)=> (/\S+)`)
	for program, place := range programs {
		path := programtest.Tool(t, program)
		files := map[string]string{place: path}
		if out, err := exec.CommandContext(t.Context(), "ldd", path).Output(); err == nil { // a static program has none
			for _, found := range library.FindAllStringSubmatch(string(out), -1) {
				// /lib is a link to /usr/lib, which a directory would replace.
				files["/usr/lib/"+found[1][strings.Index(found[1], "/lib/")+len("/lib/"):]] = found[1]
			}
		}
		for place, from := range files {
			content, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			put(place, content, 0o755)
		}
	}
	put("etc/nginx/nginx.conf", []byte(imageNginx), 0o644)
	users, err := os.ReadFile(filepath.Join(debian(t), "etc", "passwd"))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile(filepath.Join(debian(t), "etc", "group"))
	if err != nil {
		t.Fatal(err)
	}
	put("etc/passwd", append(users, "redis:x:999:999::/data:/usr/sbin/nologin\nnginx:x:101:101::/nonexistent:/usr/sbin/nologin\n"...), 0o644)
	put("etc/group", append(groups, "redis:x:999:\nnginx:x:101:\n"...), 0o644)
	put("var/log/nginx/about", []byte("what the program opens before it has read its configuration\n"), 0o644)
	file := "FROM " + base + "\nENTRYPOINT []\nCMD [\"nginx\", \"-g\", \"daemon off;\"]\nCOPY rootfs/ /\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"build", "-q"}
	for _, name := range names {
		arguments = append(arguments, "-t", name)
	}
	e.docker(t, append(arguments, dir)...)
}

// crane runs crane in the engine's network.
func (e *engine) crane(t *testing.T, args ...string) string {
	t.Helper()
	return harness.Run(t, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", e.pid), programtest.Tool(t, "crane")}, args...)...)
}

// docker-compose.replicas.yml serves a bucket with two registries behind nginx. While one of them is
// dead, the other one does everything.
func checkReplicas(t *testing.T, s *stack) {
	e := s.engine
	env := append([]string{"MINIO_PASSWORD=a-long-password"}, s.env...)
	files := append(append([]string{}, s.files...), "docker-compose.replicas.yml")
	project, err := load(t, env, files...)
	if err != nil {
		t.Fatal(err)
	}
	e.makeStores(t, withTLS(t).Services["proxy"].Image, project.Services["minio"].Image, project.Services["redis"].Image, project.Services["balancer"].Image)
	s.compose(t, "down")
	over := &stack{engine: e, files: files, env: env}
	over.compose(t, "config", "-q")
	over.compose(t, "up", "-d", "balancer", "redis")
	defer over.compose(t, "down")
	over.waitHealthy(t, "registry", "registry-2", "minio")

	const at = "127.0.0.1:5080"
	images := []string{at + "/replicas:docker", at + "/replicas:crane", at + "/replicas:dead", at + "/replicas:dead-crane", at + "/replicas:back"}
	e.push(t, images[0])
	e.crane(t, "copy", "--insecure", images[0], images[1])
	file := filepath.Join(t.TempDir(), "image.tar")
	pulls := func(refs ...string) {
		t.Helper()
		for _, ref := range refs {
			e.crane(t, "validate", "--insecure", "--remote", ref)
			e.pull(t, ref)
		}
	}
	pulls(images[:2]...)
	for service, other := range map[string]string{"registry": "registry-2", "registry-2": "registry"} {
		if tags := over.tagsAt(t, service); !strings.Contains(tags, "crane") || !strings.Contains(tags, "docker") {
			t.Errorf("%s has the tags %s of what went to it or %s", service, tags, other)
		}
	}

	e.docker(t, "kill", over.container("registry"))
	e.push(t, images[2])
	e.crane(t, "pull", "--insecure", images[2], file)
	e.crane(t, "push", "--insecure", file, images[3])
	pulls(images[:4]...)

	e.docker(t, "start", over.container("registry"))
	over.waitHealthy(t, "registry")
	e.push(t, images[4])
	pulls(images...)
	if said := over.compose(t, "logs", "--no-color", "registry", "registry-2"); !strings.Contains(said, "conditional_put=true") {
		t.Errorf("the registries do not say what the bucket can do:\n%s", tail(said))
	}
	if keys := strings.TrimSpace(e.docker(t, "exec", over.container("redis"), "redis-cli", "dbsize")); keys == "0" || strings.Trim(keys, "0123456789") != "" {
		t.Errorf("Redis has %q keys", keys)
	}
}

// tagsAt is the list of tags at one registry, which is asked from its container's address.
func (s *stack) tagsAt(t *testing.T, service string) string {
	t.Helper()
	address := s.state(t, service, "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}")
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.CommandContext(t.Context(), "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", s.engine.pid),
			programtest.Tool(t, "crane"), "ls", "--insecure", strings.Fields(address)[0]+":5000/replicas").CombinedOutput()
		if err == nil {
			return string(out)
		}
		if time.Now().After(end) {
			t.Fatalf("%s at %s: %v %s", service, address, err, out)
		}
	}
}
