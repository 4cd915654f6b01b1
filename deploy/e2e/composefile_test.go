package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// overrides are the files of deploy/compose that lie over docker-compose.yml, with the variables that each needs.
var overrides = map[string][]string{
	"":         nil,
	"tls":      {"REGISTRY_DOMAIN=" + names[0], "RELAY_DOMAIN=" + names[1], "MATRIX_DOMAIN=" + names[2]},
	"replicas": {"BUCKET_PASSWORD=a-long-password"},
	"relays":   {"POSTGRES_PASSWORD=a-long-password"},
}

// files are the paths of docker-compose.yml and an override.
func files(t *testing.T, override string) []string {
	paths := []string{filepath.Join(programtest.Root(t), "docker-compose.yml")}
	if override != "" {
		paths = append(paths, filepath.Join(programtest.Root(t), "deploy", "compose", "docker-compose."+override+".yml"))
	}
	return paths
}

// load reads the files as Docker Compose v2 does. It returns nil if they are refused
// for lack of variables.
func load(t *testing.T, override string, env []string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions(files(t, override), cli.WithName("slipway"), cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil && len(env) == len(overrides[override]) {
		t.Fatalf("%s: %v", override, err)
	}
	return p
}

// TestComposeV2 holds the files against the reader of Docker Compose v2
// (docker-compose 1.29 starts them in TestFull_Stack): each service has no more rights
// than it needs and listens on this machine alone, stores on no port at all, and
// an override without its variables is refused.
func TestComposeV2(t *testing.T) {
	for override, env := range overrides {
		if env != nil && load(t, override, nil) != nil {
			t.Errorf("docker-compose.%s.yml: no variables are taken for %v", override, env)
		}
		builds := map[string]string{}
		for name, s := range load(t, override, env).Services {
			if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) != 1 || s.MemLimit == 0 || s.PidsLimit == 0 || s.Restart == "" || s.Logging == nil {
				t.Errorf("%q, %s is less confined than the others", override, name)
			}
			// Names that nobody is known to own are built here, and never pulled.
			if want := map[bool]string{true: types.PullPolicyBuild, false: types.PullPolicyNever}[s.Build != nil]; strings.HasPrefix(s.Image, "slipway/") && s.PullPolicy != want {
				t.Errorf("%q, %s: the pull policy of %s is %q, want %q", override, name, s.Image, s.PullPolicy, want)
			}
			store := name == "store" || name == "postgres"
			for _, port := range s.Ports {
				if public := override == "tls" && name == "proxy"; store || port.HostIP != "127.0.0.1" && !public {
					t.Errorf("%q, %s listens on %s:%s", override, name, port.HostIP, port.Published)
				}
			}
			if s.Build != nil {
				if builds[s.Image] != "" { // Compose v2 builds them at the same time, and one fails
					t.Errorf("%q: %s and %s build %s", override, name, builds[s.Image], s.Image)
				}
				builds[s.Image] = name
			}
		}
	}
	if !strings.Contains(harness.Read(t, "../compose/replica.yml"), "\n  trustedproxies: [") {
		t.Error("the registries behind the balancer trust no proxy: rates and logs would have its address for all clients")
	}
	if version := strings.TrimPrefix(load(t, "", nil).Services["synapse"].Image, "matrixdotorg/synapse:v"); !strings.Contains(harness.Read(t, "../../tools/synapse/requirements.txt"), "\nmatrix-synapse=="+version+"\n") {
		t.Errorf("docker-compose.yml starts Synapse %s, tools/synapse/requirements.txt has another", version)
	}
	for name, variable := range map[string]string{"registry": "REGISTRY_HTTP_TRUSTEDPROXIES", "relay": "RELAY_HTTP_TRUSTEDPROXIES"} {
		if load(t, "tls", overrides["tls"]).Services[name].Environment[variable] == nil {
			t.Errorf("behind the proxy all clients have one address for the %s, for lack of %s", name, variable)
		}
	}
	for _, name := range []string{"relay", "relay-2", "setup"} {
		if s := load(t, "relays", overrides["relays"]).Services[name]; s.Environment["RELAY_DATABASE_DIALECT"] == nil || s.DependsOn["postgres"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s: database %v, waits for %v", name, s.Environment, s.DependsOn)
		}
	}
}
