package auth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// client is a program with a home of its own. Each function runs it and returns what it
// wrote; repositories are written host:port/name.
type client struct {
	login  func(addr, user, password string) (string, error)
	logout func(addr string) (string, error)
	push   func(repository string) (string, error)
	pull   func(repository string) (string, error) // all bytes of what was pushed there

	trusting bool // login tries no password
}

// site is a registry on files and one of two replicas on a bucket, both behind TLS, and what
// their clients trust.
type site struct {
	alone    *harness.Team
	replicas []*harness.Team
	fronts   map[string]string // "one", "two" → host:port
	ca       string
	certs    string // as docker, podman and skopeo want it: ca.crt
}

const siteRules = `
access:
  rules:
    - {who: [anyone], repositories: ["public/**"], allow: [pull, list]}
    - {who: [carl], repositories: ["ci/**"], allow: [push, tag-move]}
    - {who: [alice], repositories: ["**"], allow: [admin]}
`

// startSite starts the registries, and nginx before the first and before the other two.
// Clients take loopback addresses for registries whose certificate need not be right, so
// they are told 0.0.0.0, which leads there, too.
func startSite(t *testing.T, start s3test.Start) *site {
	t.Helper()
	root := t.TempDir()
	cert, key := programtest.Certificate(t, "0.0.0.0")
	server, _ := harness.S3Bucket(t, start)
	// Clients take the bytes from the bucket only if that has TLS, too, and is no private address.
	_, bucket, _ := net.SplitHostPort(harness.StartBalancer(t, cert, key, server.Addr))
	storage := fmt.Sprintf(
		"{s3: {bucket: images, region: us-east-1, regionendpoint: %q, redirectendpoint: 'https://localhost:%s', secure: false, accesskey: %s, secretkey: %s}}",
		server.URL(), bucket, s3test.AccessKey, s3test.SecretKey,
	)
	s := &site{alone: harness.StartTeam(t, root, siteRules), fronts: map[string]string{}, certs: t.TempDir()}
	for range 2 {
		s.replicas = append(s.replicas, harness.StartTeamOn(t, storage, root, siteRules, "audit: {file: "+filepath.Join(t.TempDir(), "audit.log")+"}"))
	}
	harness.CopyFile(t, cert, filepath.Join(s.certs, "ca.crt"))
	s.ca = filepath.Join(s.certs, "ca.crt")
	for name, backends := range map[string][]string{"one": {s.alone.Addr}, "two": {s.replicas[0].Addr, s.replicas[1].Addr}} {
		_, port, _ := net.SplitHostPort(harness.StartBalancer(t, cert, key, backends...))
		s.fronts[name] = "0.0.0.0:" + port
	}
	return s
}

// home is the environment of a client that trusts the site's certificate alone.
func (s *site) home(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	return dir, []string{
		"HOME=" + dir, "DOCKER_CONFIG=" + dir, "SSL_CERT_FILE=" + s.ca, "SSL_CERT_DIR=" + s.certs,
		"HELM_REGISTRY_CONFIG=" + filepath.Join(dir, "helm.json"), "REGCTL_CONFIG=" + filepath.Join(dir, "regctl.json"), "COSIGN_PASSWORD=",
	}
}

// opener starts a client.
type opener func(*testing.T, *site) *client

// clients are those that the registry is proved with, beside those of TestFull_TokenService_Clients.
var clients = map[string]opener{
	"crane": openCrane, "skopeo": openSkopeo, "podman": openPodman, "containerd": openContainerd, "docker": openDocker, "regctl": openRegctl,
}

func openCrane(t *testing.T, s *site) *client {
	_, env := s.home(t)
	do := func(args ...string) (string, error) { return harness.TryTool(t, env, "crane", args...) }
	layout := harness.NewImage(t, 303, 2, 10_000).Layout(t, "v1")
	return &client{
		login: func(addr, user, password string) (string, error) {
			return do("auth", "login", addr, "-u", user, "-p", password)
		},
		logout:   func(addr string) (string, error) { return do("auth", "logout", addr) },
		push:     func(repository string) (string, error) { return do("push", layout, repository+":v1") },
		pull:     func(repository string) (string, error) { return do("validate", "--remote", repository+":v1") },
		trusting: true,
	}
}

func openSkopeo(t *testing.T, s *site) *client {
	dir, env := s.home(t)
	auth := filepath.Join(dir, "auth.json")
	harness.WriteFile(t, auth, []byte("{}"))
	do := func(args ...string) (string, error) {
		return harness.TryTool(t, env, "skopeo", append([]string{"--insecure-policy"}, args...)...)
	}
	layout := "oci:" + harness.NewImage(t, 306, 2, 10_000).Layout(t, "v1") + ":v1"
	return &client{
		login: func(addr, user, password string) (string, error) {
			return do("login", "--authfile", auth, "--cert-dir", s.certs, "-u", user, "-p", password, addr)
		},
		logout: func(addr string) (string, error) { return do("logout", "--authfile", auth, addr) },
		push: func(repository string) (string, error) {
			return do("copy", "--authfile", auth, "--dest-cert-dir", s.certs, layout, "docker://"+repository+":v1")
		},
		pull: func(repository string) (string, error) {
			return do("copy", "--authfile", auth, "--src-cert-dir", s.certs, "docker://"+repository+":v1", "dir:"+t.TempDir())
		},
	}
}

func openPodman(t *testing.T, s *site) *client {
	dir, env := s.home(t)
	auth := filepath.Join(dir, "auth.json")
	harness.WriteFile(t, auth, []byte("{}"))
	podman := harness.PodmanCommand(t, "podman", env)
	with := []string{"--authfile", auth, "--cert-dir", s.certs}
	lower, err := os.MkdirTemp("", "podman") // podman makes a name of the path, which has no capitals
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(lower) })
	if err := os.Symlink(harness.NewImage(t, 309, 2, 10_000).Layout(t, "v1"), filepath.Join(lower, "image")); err != nil {
		t.Fatal(err)
	}
	layout := "oci:" + filepath.Join(lower, "image") + ":v1"
	return &client{
		login: func(addr, user, password string) (string, error) {
			return podman(append([]string{"login", "-u", user, "-p", password, addr}, with...)...)
		},
		logout: func(addr string) (string, error) { return podman("logout", "--authfile", auth, addr) },
		push: func(repository string) (string, error) {
			id, err := podman("pull", "-q", "--authfile", auth, layout)
			if err != nil {
				return id, err
			}
			return podman(append([]string{"push", "-q", harness.LastLine(id), "docker://" + repository + ":v1"}, with...)...)
		},
		pull: func(repository string) (string, error) {
			if out, err := podman("rmi", "--all", "--force"); err != nil {
				return out, err
			}
			return podman(append([]string{"pull", "-q", repository + ":v1"}, with...)...)
		},
	}
}

// openContainerd is containerd and its client, which is given the password each time.
func openContainerd(t *testing.T, s *site) *client {
	socket, hosts := harness.ContainerdSocket(t), t.TempDir()
	for _, addr := range s.fronts {
		host := filepath.Join(hosts, addr)
		if err := os.Mkdir(host, 0o755); err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(host, "hosts.toml"), []byte("[host.\"https://"+addr+"\"]\nca = \""+s.ca+"\"\n"))
	}
	ctr := func(args ...string) (string, error) {
		return harness.TryTool(t, nil, "ctr", append([]string{"--address", socket}, args...)...)
	}
	img, archive := harness.NewImage(t, 312, 2, 10_000), filepath.Join(t.TempDir(), "layout.tar")
	if out, err := exec.Command("tar", "-C", img.Layout(t, "v1"), "-cf", archive, ".").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	with := []string{"--hosts-dir", hosts}
	return &client{
		login: func(_, user, password string) (string, error) {
			with = []string{"--hosts-dir", hosts, "--user", user + ":" + password}
			return "", nil
		},
		logout: func(string) (string, error) {
			with = []string{"--hosts-dir", hosts}
			return "", nil
		},
		push: func(repository string) (string, error) {
			if out, err := ctr("images", "import", "--all-platforms", "--no-unpack", "--base-name", repository, archive); err != nil {
				return out, err
			}
			return ctr(append(append([]string{"images", "push"}, with...), repository+":v1")...)
		},
		pull: func(repository string) (string, error) {
			names, err := ctr("images", "ls", "-q")
			if err != nil {
				return names, err
			}
			if out, err := ctr(append([]string{"images", "rm", "--sync"}, strings.Fields(names)...)...); err != nil {
				return out, err
			}
			return ctr(append(append([]string{"content", "fetch", "--all-platforms"}, with...), repository+":v1")...)
		},
		trusting: true,
	}
}

// openDocker is Docker's engine, which has the certificate in certs.d.
func openDocker(t *testing.T, s *site) *client {
	etc := t.TempDir()
	for _, addr := range s.fronts {
		dir := filepath.Join(etc, "certs.d", addr)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		harness.CopyFile(t, s.ca, filepath.Join(dir, "ca.crt"))
	}
	e := harness.StartEngineIn(t, etc)
	archive := filepath.Join(t.TempDir(), "layer.tar")
	harness.WriteFile(t, archive, harness.Tar(t, "file", []byte(strings.Repeat("of docker ", 1000))))
	return &client{
		login: func(addr, user, password string) (string, error) {
			out, err := e.Try("login", "-u", user, "-p", password, addr)
			if stored, _ := os.ReadFile(filepath.Join(e.Config, "config.json")); strings.Contains(string(stored), base64.StdEncoding.EncodeToString([]byte(user+":"+password))) {
				t.Errorf("the engine stores the password and no refresh token: %s", stored)
			}
			return out, err
		},
		logout: func(addr string) (string, error) { return e.Try("logout", addr) },
		push: func(repository string) (string, error) {
			if out, err := e.Try("import", archive, repository+":v1"); err != nil {
				return out, err
			}
			return e.Try("push", repository+":v1")
		},
		pull: func(repository string) (string, error) {
			ids, err := e.Try("images", "-q")
			if err != nil {
				return ids, err
			}
			if out, err := e.Try(append([]string{"image", "rm", "--force"}, strings.Fields(ids)...)...); err != nil {
				return out, err
			}
			return e.Try("pull", repository+":v1")
		},
	}
}

func openRegctl(t *testing.T, s *site) *client {
	_, env := s.home(t)
	do := func(args ...string) (string, error) { return harness.TryTool(t, env, "regctl", args...) }
	layout := "ocidir://" + harness.NewImage(t, 315, 2, 10_000).Layout(t, "v1") + ":v1"
	return &client{
		login: func(addr, user, password string) (string, error) {
			return do("registry", "login", addr, "-u", user, "-p", password)
		},
		logout: func(addr string) (string, error) { return do("registry", "logout", addr) },
		push:   func(repository string) (string, error) { return do("image", "copy", layout, repository+":v1") },
		pull: func(repository string) (string, error) {
			return do("image", "copy", repository+":v1", "ocidir://"+t.TempDir()+":v1")
		},
	}
}

// openHelm is helm, for which the last component of a repository is the chart's name.
func openHelm(t *testing.T, s *site) *client {
	dir, env := s.home(t)
	do := func(args ...string) (string, error) { return harness.TryTool(t, env, "helm", args...) }
	for _, args := range [][]string{{"create", filepath.Join(dir, "helm")}, {"package", filepath.Join(dir, "helm"), "--version", "1.2.3", "-d", dir}} {
		if out, err := do(args...); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	return &client{
		login: func(addr, user, password string) (string, error) {
			return do("registry", "login", "--ca-file", s.ca, "-u", user, "-p", password, addr)
		},
		logout: func(addr string) (string, error) { return do("registry", "logout", addr) },
		push: func(repository string) (string, error) {
			return do("push", "--ca-file", s.ca, filepath.Join(dir, "helm-1.2.3.tgz"), "oci://"+strings.TrimSuffix(repository, "/helm"))
		},
		pull: func(repository string) (string, error) {
			return do("pull", "--ca-file", s.ca, "oci://"+repository, "--version", "1.2.3", "-d", t.TempDir())
		},
	}
}

// openCosign is cosign, which pushes signatures of what an administrator has pushed, and
// pulls by verifying. It has no logout.
func openCosign(t *testing.T, s *site) *client {
	dir, env := s.home(t)
	do := func(args ...string) (string, error) { return harness.TryTool(t, env, "cosign", args...) }
	key, services := filepath.Join(dir, "k"), filepath.Join(dir, "services.json")
	for _, args := range [][]string{{"generate-key-pair", "--output-key-prefix", key}, {"signing-config", "create", "--out", services}} { // no public log
		if out, err := do(args...); err != nil {
			t.Fatalf("cosign %v: %v\n%s", args, err, out)
		}
	}
	img := harness.NewImage(t, 318, 2, 10_000)
	return &client{
		login: func(addr, user, password string) (string, error) {
			return do("login", addr, "-u", user, "-p", password)
		},
		logout: func(string) (string, error) { return "", os.Remove(filepath.Join(dir, "config.json")) },
		push: func(repository string) (string, error) {
			addr, name, _ := strings.Cut(repository, "/")
			x := s.alone
			if addr == s.fronts["two"] {
				x = s.replicas[0]
			}
			img.Push(t, harness.AsAlice(x.Addr), name, "v1")
			return do("sign", "--yes", "--key", key+".key", "--signing-config", services, repository+"@"+img.Manifest)
		},
		pull: func(repository string) (string, error) {
			return do("verify", "--key", key+".pub", "--insecure-ignore-tlog", repository+"@"+img.Manifest)
		},
		trusting: true,
	}
}

// refusal matches the clients' messages on a refusal by the registry or its token service.
var refusal = regexp.MustCompile(`(?i)denied|unauthorized|invalid username/password|authentication required|authorization failed|insufficient_scope|\b40[13]\b`)

// prove wants a client to do what the account may do, and what anybody may, and nothing else.
func (c *client) prove(t *testing.T, name, addr, path, user, password string) {
	public, own, other := addr+"/public/"+path+"/"+name, addr+"/ci/"+path+"/"+name, addr+"/public/"+path+"/not/"+name
	works := func(what string) func(string, error) {
		return func(out string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v\n%s", what, err, programtest.Tail(out))
			}
		}
	}
	refused := func(what string) func(string, error) {
		return func(out string, err error) {
			t.Helper()
			if err == nil || !refusal.MatchString(out) {
				t.Errorf("%s: %v, want a refusal\n%s", what, err, programtest.Tail(out))
			}
		}
	}
	refused("push without a login")(c.push(public))
	works("login of an administrator")(c.login(addr, "alice", "secret of alice"))
	works("push by an administrator")(c.push(public))
	works("logout")(c.logout(addr))
	works("anonymous pull")(c.pull(public))
	if !c.trusting && path == "two" {
		refused("login with a wrong password")(c.login(addr, user, "wrong"))
	}
	works("login")(c.login(addr, user, password))
	works("push")(c.push(own))
	works("pull")(c.pull(own))
	refused("push elsewhere")(c.push(other))
	works("logout")(c.logout(addr))
	refused("pull without a login")(c.pull(own))
}

// Six clients verify the certificate, log in, push and pull through the built-in token
// service, and pull without a login: as a user at a registry on files, and as a robot at two
// replicas on a bucket that get requests by turns, so that each takes the tokens that the other
// has made, and blobs come from the bucket. What they may not do is refused, and a robot that is
// revoked at one replica is refused at both.
func TestTokenService_Clients(t *testing.T) {
	s := startSite(t, s3test.VersityGW)
	robot, secret, opened := s.proveAll(t, clients)
	front := s.fronts["two"]
	t.Run("copy and list", func(t *testing.T) {
		c := opened["crane"]
		_, env := s.home(t)
		for _, args := range [][]string{
			{"auth", "login", front, "-u", robot, "-p", secret},
			{"copy", front + "/ci/two/crane:v1", front + "/ci/copy:v1"}, // mounts
			{"ls", front + "/ci/copy"},
			{"catalog", front},
		} {
			out, err := harness.TryTool(t, env, "crane", args...)
			if err != nil {
				t.Fatalf("crane %v: %v\n%s", args, err, out)
			}
			if args[0] == "catalog" && (!strings.Contains(out, "public/two/crane\n") || strings.Contains(out, "ci/one/crane\n")) {
				t.Errorf("the catalog of a robot: %s", out)
			}
		}
		if out, err := c.pull(front + "/ci/copy"); err == nil {
			t.Errorf("an anonymous pull of the copy: %s", out)
		}
	})
	t.Run("revoked robot", func(t *testing.T) {
		for _, name := range []string{"docker", "crane"} {
			if out, err := opened[name].login(front, robot, secret); err != nil {
				t.Fatalf("%s login: %v\n%s", name, err, out)
			}
			if out, err := opened[name].push(front + "/ci/last/" + name); err != nil {
				t.Fatalf("%s push: %v\n%s", name, err, out)
			}
		}
		s.replicas[0].Registry(t, "robot", "delete", "ci", "--yes")
		for _, name := range []string{"docker", "crane"} {
			harness.Eventually(t, "a push by a revoked robot is refused", func() bool {
				out, err := opened[name].push(front + "/ci/last/" + name)
				return err != nil && refusal.MatchString(out)
			})
		}
		for i, x := range s.replicas {
			harness.Eventually(t, "a revoked robot gets no token", func() bool { token, _ := x.Token(t, robot, secret); return token == "" })
			if out := x.Output(); strings.Contains(out, secret) || strings.Contains(out, "secret of") {
				t.Errorf("a password is in the log of replica %d", i)
			}
		}
	})
	for i, x := range s.replicas {
		events := auditEvents(t, x)
		for _, event := range []string{"login", "push", "pull", "refused"} {
			if !slices.Contains(events, event) {
				t.Errorf("replica %d took no part: its audit log has no %q", i, event)
			}
		}
	}
}

// The same with the clients that are large, on MinIO.
func TestFull_TokenService_Clients(t *testing.T) {
	startSite(t, s3test.MinIO).proveAll(t, map[string]opener{"helm": openHelm, "cosign": openCosign})
}

// proveAll opens the clients and proves the registries with them at the same time: with a robot at the replicas.
func (s *site) proveAll(t *testing.T, clients map[string]opener) (robot, secret string, opened map[string]*client) {
	t.Helper()
	robot, secret = s.replicas[0].Robot(t, "ci", "ci/**", "push,tag-move")
	for _, x := range s.replicas {
		harness.Eventually(t, "the robot is known", func() bool { token, _ := x.Token(t, robot, secret); return token != "" })
	}
	opened = map[string]*client{}
	for name, open := range clients {
		opened[name] = open(t, s)
	}
	t.Run("each", func(t *testing.T) {
		for name, c := range opened {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.prove(t, name, s.fronts["one"], "one", "carl", "secret of carl")
				c.prove(t, name, s.fronts["two"], "two", robot, secret)
			})
		}
	})
	return robot, secret, opened
}

// auditEvents are the events in the audit log of a registry.
func auditEvents(t *testing.T, x *harness.Team) (events []string) {
	t.Helper()
	config, err := os.ReadFile(x.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(config), "audit: {file: ")
	path, _, _ = strings.Cut(path, "}")
	lines, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := os.ReadFile(path + ".reads")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines) + string(reads)) {
		var record struct{ Event, Who string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		events = append(events, record.Event)
	}
	return events
}
