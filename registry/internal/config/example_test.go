package config

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/shared/config"
)

const example = "../../config.example.yml"

// TestExampleIsDefault: the example describes what holds without it.
func TestExampleIsDefault(t *testing.T) {
	got, _, err := Load(example, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := Load("", []string{"REGISTRY_STORAGE=filesystem"})
	if err != nil {
		t.Fatal(err)
	}
	got.Validation.Manifests.URLs, got.Policy, got.Proxy.Local, got.Proxy.Namespaces = URLs{}, Policy{}, nil, nil // empty lists are written out there
	want.Storage.Delete.Keep = keepInExample
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// keepInExample is the setting of new installations. Configurations of distribution lack the setting,
// and what they delete must not need more room than before.
const keepInExample = 168 * time.Hour

// tlsFiles stand in the example beside what replaces them.
var tlsFiles = regexp.MustCompile(`(?m)^    (certificate|key): /etc/registry/.*\n`)

// TestExampleIsComplete: every setting is in the example, those off by default
// in comments that hold their defaults.
func TestExampleIsComplete(t *testing.T) {
	source := tlsFiles.ReplaceAll(driverSections.ReplaceAll(uncommented(t), nil), nil)
	source = bytes.Replace(source, []byte("  inmemory: {}\n"), nil, 1)
	source = bytes.Replace(source, []byte("  none: {}\n"), nil, 1)
	source = bytes.Replace(source, []byte("  secret: a-long-random-string\n"), nil, 1)
	source = bytes.Replace(source, []byte("    secret: a-long-random-string\n"), nil, 1)
	source = bytes.Replace(source, []byte("    secret_file: /run/secrets/registry-event-secret\n"), nil, 1)
	source = bytes.Replace(source, []byte("/run/secrets/registry-http-secret"), []byte(os.DevNull+"x"), 1)
	source = bytes.Replace(source, []byte(ofRemoteURL), nil, 1)
	cfg, report, err := load(config.Options{File: "example", Source: source})
	if err == nil || !strings.Contains(err.Error(), "http.secret_file: cannot be read") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, %v", cfg, err)
	}
	defaults := Default()
	required := regexp.MustCompile(`^(version|loglevel|proxy.(upstreams.0..)?password_file|proxy.exec.*|storage.(inmemory|redirect.*|s3.*|azure.*|gcs.*)|auth.none|auth.token.*|http.tls.(certificate|key)|access.file|(http|notifications.endpoints.0.).secret(_file)?)$`)
	for _, leaf := range config.Walk(&defaults) {
		path := strings.ReplaceAll(leaf.Path, "[]", "[0]")
		if leaf.Type != "" && !required.MatchString(path) && report.Origins[path] == "" {
			t.Errorf("%s is not in the example", leaf.Path)
		}
	}
}

// TestExampleComments: what the comments say of optional settings are the
// defaults, where there is one.
func TestExampleComments(t *testing.T) {
	source := tlsFiles.ReplaceAll(driverSections.ReplaceAll(uncommented(t), nil), nil)
	for _, line := range []string{"  inmemory: {}\n", "  none: {}\n", "  secret_file: /run/secrets/registry-http-secret\n", "    secret_file: /run/secrets/registry-event-secret\n", ofRemoteURL} {
		source = bytes.Replace(source, []byte(line), nil, 1)
	}
	source = bytes.ReplaceAll(source, []byte("a-long-random-string"), []byte("7a4dd2a5f0c94a4cb9a8a6e3e6a55ad1")) // the example is refused
	got, _, err := load(config.Options{File: "example", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Storage.Delete.Keep = keepInExample
	want.Storage.S3, want.Storage.Azure, want.Storage.GCS = nil, nil, nil
	want.Storage.InMemory, want.Auth.None, want.Auth.Token = nil, nil, nil
	want.Audit.File = got.Audit.File
	want.Auth.Service.Builtin.Workloads, want.Access = got.Auth.Service.Builtin.Workloads, got.Access
	want.Auth.HTPasswd.Realm, want.Auth.HTPasswd.Path = got.Auth.HTPasswd.Realm, got.Auth.HTPasswd.Path
	want.HTTP.TLS.Certificate, want.HTTP.TLS.Key = got.HTTP.TLS.Certificate, got.HTTP.TLS.Key
	want.HTTP.TLS.ClientCAs, want.HTTP.TLS.ClientAuth = got.HTTP.TLS.ClientCAs, got.HTTP.TLS.ClientAuth
	want.HTTP.TLS.CipherSuites, want.HTTP.TLS.LetsEncrypt = []string{}, got.HTTP.TLS.LetsEncrypt
	want.HTTP.Secret = got.HTTP.Secret
	want.Auth.OIDC = got.Auth.OIDC
	want.Health.Files[0].File, want.Health.HTTP[0].URI, want.Health.TCP[0].Addr = got.Health.Files[0].File, got.Health.HTTP[0].URI, got.Health.TCP[0].Addr
	want.Health.HTTP[0].Headers = map[string][]config.Secret{}
	e := &got.Notifications.Endpoints[0]
	want.Notifications.Endpoints[0].Name, want.Notifications.Endpoints[0].URL, want.Notifications.Endpoints[0].HeadersFile = e.Name, e.URL, e.HeadersFile
	want.Notifications.Endpoints[0].Secret, want.Notifications.Endpoints[0].Headers = e.Secret, map[string][]config.Secret{}
	want.Notifications.Endpoints[0].IgnoredMediaTypes, want.Notifications.Endpoints[0].Ignore = []string{}, e.Ignore
	want.Validation.Manifests.URLs = URLs{Allow: []string{}, Deny: []string{}}
	want.Middleware.Storage[0].Name, want.Middleware.Storage[0].Options.BaseURL = "redirect", "https://cdn.example.com"
	want.Policy.Repository.Classes = []string{}
	want.Policy.Signatures = got.Policy.Signatures
	want.Storage.Maintenance.Immutable = got.Storage.Maintenance.Immutable
	want.Storage.Maintenance.Retention.Rules = got.Storage.Maintenance.Retention.Rules
	want.Slipway.Quotas = got.Slipway.Quotas
	want.Proxy.Exec, want.Proxy.Local, want.Proxy.Namespaces, want.Proxy.Sync.Images = nil, []string{}, []string{}, got.Proxy.Sync.Images
	copied := &got.Replication.Targets[0]
	want.Replication.Targets[0].Name, want.Replication.Targets[0].URL, want.Replication.Targets[0].Repositories = copied.Name, copied.URL, copied.Repositories
	u := &want.Proxy.Upstreams[0]
	u.Prefix, u.RemoteURL, u.Exec.Command = "hub", "https://registry-1.docker.io", "docker-credential-ecr-login"
	u.Namespaces, u.TrustedRealms = []string{}, []string{}
	want.Validation.Manifests.Indexes.PlatformList = got.Validation.Manifests.Indexes.PlatformList
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

// ofRemoteURL is a section that upstreams exclude.
const ofRemoteURL = "  exec:\n    command: docker-credential-ecr-login\n    lifetime: -1ns\n"

// driverSections are those of drivers that are not chosen.
var driverSections = regexp.MustCompile(`(?m)^  (s3|azure|gcs):\n((    |#).*\n)*`)

// TestExampleDrivers: the sections of the drivers that are not chosen are complete.
func TestExampleDrivers(t *testing.T) {
	sections := driverSections.FindAllString(string(uncommented(t)), -1)
	if len(sections) != 3 {
		t.Fatalf("the example has %d of 3 sections: %q", len(sections), sections)
	}
	for _, section := range sections {
		section = regexp.MustCompile(`(?m)^ +\w+_file: .*\n`).ReplaceAllString(section, "")
		cfg, report, err := load(config.Options{File: "example", Source: []byte("version: 0.1\nstorage:\n" + section)})
		if err != nil {
			t.Errorf("%s\n%v", section, err)
			continue
		}
		defaults := Default()
		for _, leaf := range config.Walk(&defaults) {
			if strings.HasPrefix(leaf.Path, "storage."+cfg.Storage.Drivers()[0]+".") && leaf.Type != "" && report.Origins[leaf.Path] == "" {
				t.Errorf("%s is not in the example", leaf.Path)
			}
		}
	}
}

// uncommented is the example with the settings that are off turned on.
func uncommented(t *testing.T) []byte {
	t.Helper()
	source, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^#(\S|  )`).ReplaceAll(source, []byte("$1"))
}
