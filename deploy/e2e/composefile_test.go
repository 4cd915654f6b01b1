package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"slipway/shared/programtest"
)

// load reads the files as Docker Compose v2 does.
func load(t *testing.T, env []string, files ...string) (*types.Project, error) {
	t.Helper()
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = filepath.Join(programtest.Root(t), f)
	}
	options, err := cli.NewProjectOptions(paths, cli.WithName(project), cli.WithEnv(env))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(t.Context())
}

// withTLS is the whole stack with its override.
func withTLS(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, []string{"REGISTRY_DOMAIN=a.example", "RELAY_DOMAIN=b.example", "MATRIX_DOMAIN=c.example"}, "docker-compose.yml", "docker-compose.tls.yml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The homeserver is the one that all other tests run.
func TestSynapseVersion(t *testing.T) {
	lock, err := os.ReadFile(filepath.Join(programtest.Root(t), "tools", "synapse", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(withTLS(t).Services["synapse"].Image, ":v")
	if !strings.Contains(string(lock), "\nmatrix-synapse=="+version+"\n") {
		t.Errorf("docker-compose.yml starts Synapse %q, tools/synapse/requirements.txt has another", version)
	}
}

// TestComposeV2 holds the files against the reader of Docker Compose v2;
// docker-compose 1.29 starts them in TestStack.
func TestComposeV2(t *testing.T) {
	p, err := load(t, nil, "docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) != 1 || s.MemLimit == 0 || s.PidsLimit == 0 || s.Restart == "" || s.Logging == nil {
			t.Errorf("%s is less confined than the others: read-only %t, capabilities dropped %q, security %q, memory %d, processes %d, restart %q",
				name, s.ReadOnly, s.CapDrop, s.SecurityOpt, s.MemLimit, s.PidsLimit, s.Restart)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %s for the world", name, port.HostIP)
			}
		}
	}
	if condition := p.Services["registry"].DependsOn["setup"].Condition; condition != types.ServiceConditionCompletedSuccessfully {
		t.Errorf("the registry waits until setup is %q", condition)
	}
	builds := map[string]int{}
	for _, s := range p.Services {
		if s.Build != nil {
			builds[s.Image]++
		}
	}
	for image, n := range builds {
		if n != 1 { // Compose v2 builds them at the same time, and one fails
			t.Errorf("%d services build %s", n, image)
		}
	}
}

// The override adds to the networks and settings, and replaces none.
func TestComposeV2WithTLS(t *testing.T) {
	if _, err := load(t, nil, "docker-compose.yml", "docker-compose.tls.yml"); err == nil {
		t.Error("the override takes no names as names")
	}
	p := withTLS(t)
	r := p.Services["registry"]
	if len(r.Networks) != 2 || len(r.Volumes) != 4 || r.Environment["GOMEMLIMIT"] == nil || r.Environment["REGISTRY_AUTH_HTPASSWD_PATH"] == nil {
		t.Errorf("the registry: networks %v, volumes %v, environment %v", r.Networks, r.Volumes, r.Environment)
	}
	if url := p.Services["relay"].Environment["RELAY_HTTP_PUBLICURL"]; url == nil || *url != "https://b.example" {
		t.Errorf("the relay's address is %v", url)
	}
}

// Two registries share a bucket that nobody but they reaches, and are as confined as the others.
func TestComposeV2WithReplicas(t *testing.T) {
	if _, err := load(t, nil, "docker-compose.yml", "docker-compose.replicas.yml"); err == nil {
		t.Error("the override takes no password as a password")
	}
	p, err := load(t, []string{"MINIO_PASSWORD=a-long-password"}, "docker-compose.yml", "docker-compose.replicas.yml")
	if err != nil {
		t.Fatal(err)
	}
	wantConfined(t, p)
	if !p.Networks["stores"].Internal || len(p.Services["minio"].Ports)+len(p.Services["redis"].Ports) != 0 {
		t.Error("the bucket or Redis can be reached from outside")
	}
	for _, name := range []string{"registry", "registry-2"} {
		config := ""
		for _, v := range p.Services[name].Volumes {
			if v.Target == "/etc/distribution/config.yml" {
				config = filepath.Base(v.Source)
			}
		}
		if s := p.Services[name]; config != "replica.yml" || s.Environment["REGISTRY_STORAGE_S3_SECRETKEY"] == nil {
			t.Errorf("%s serves %s, environment %v", name, config, s.Environment)
		}
	}
}

// Two relays share a database that nobody but they and setup reach, and are as confined as the others.
func TestComposeV2WithRelays(t *testing.T) {
	if _, err := load(t, nil, "docker-compose.yml", "docker-compose.relays.yml"); err == nil {
		t.Error("the override takes no password as a password")
	}
	p, err := load(t, []string{"POSTGRES_PASSWORD=a-long-password"}, "docker-compose.yml", "docker-compose.relays.yml")
	if err != nil {
		t.Fatal(err)
	}
	wantConfined(t, p)
	if !p.Networks["database"].Internal || len(p.Services["postgres"].Ports) != 0 {
		t.Error("the database can be reached from outside")
	}
	for _, name := range []string{"relay", "relay-2", "setup"} {
		s := p.Services[name]
		for variable, want := range map[string]string{"RELAY_DATABASE_DIALECT": "postgres", "RELAY_DATABASE_PASSWORD": "a-long-password", "MATRIX_SERVER_NAME": "localhost"} {
			if got := s.Environment[variable]; got == nil || *got != want {
				t.Errorf("%s: %s is %v, want %s", name, variable, got, want)
			}
		}
		if s.DependsOn["postgres"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s does not wait for the database", name)
		}
		for _, network := range []string{"database", "matrix", "notifications"} {
			if _, in := s.Networks[network]; !in {
				t.Errorf("%s is not in the network %s", name, network)
			}
		}
	}
	if first, second := p.Services["relay"].Hostname, p.Services["relay-2"].Hostname; first == second {
		t.Errorf("both relays are called %q", first)
	}
}

// wantConfined wants each service to have no more rights than it needs, and to listen on this machine alone.
func wantConfined(t *testing.T, p *types.Project) {
	t.Helper()
	for name, s := range p.Services {
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) != 1 || s.MemLimit == 0 || s.PidsLimit == 0 || s.Restart == "" || s.Logging == nil {
			t.Errorf("%s is less confined than the others", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %s for the world", name, port.HostIP)
			}
		}
	}
}
