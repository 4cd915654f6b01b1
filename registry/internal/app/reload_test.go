package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/audit/audittest"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/signature"
	"slipway/registry/internal/storage/memory"
	"slipway/shared/programtest"
	"slipway/shared/server"
)

// A reload and a change of the file of rules are in the audit log.
func TestReload_IsAudited(t *testing.T) {
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "audit.log"), filepath.Join(dir, "access.yml")
	write := func(right string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte("rules:\n- {who: [anyone], repositories: ['**'], allow: ["+right+"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pull")
	cfg := new(config.Config)
	*cfg = config.Default()
	var broken error
	cfg.Access = &config.Access{File: rules}
	sink, err := audit.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	auditLog := audit.New(zap.NewNop(), sink)
	g, err := openAuth(t.Context(), cfg, &Backend{Store: memory.New()}, nil, auditLog, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	level := zap.NewAtomicLevel()
	next := *cfg
	next.Log.Level, next.HTTP.Addr = "debug", "127.0.0.1:1"
	r := reloader{cfg: *cfg, load: func() (*config.Config, error) { return &next, broken }, level: &level, gate: g, auditLog: auditLog, log: zap.NewNop()}
	write("list")
	r.reload()
	write("fetch") // is broken
	broken = os.ErrInvalid
	r.reload()
	g.rules.Reload() // is not said twice
	if err := auditLog.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range audittest.Read(t, file) {
		got = append(got, strings.TrimSpace(r.Event+" "+r.Reference+" "+r.Result+" "+r.Change))
	}
	want := []string{
		"reload " + rules + " succeeded added: anyone in **: allow pull",
		"reload " + rules + " succeeded removed: anyone in **: allow pull; added: anyone in **: allow list",
		"reload configuration succeeded log.level: info → debug; other settings, which take effect at the next start",
		"reload " + rules + " failed", "reload configuration failed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A reload that could not use the certificates does not say that it did.
func TestReload_BrokenCertificate(t *testing.T) {
	cert, key := programtest.Certificate(t)
	s, err := server.Listen(server.Options{Addr: "127.0.0.1:0", Log: zap.NewNop(), TLS: &server.TLS{Certificate: cert, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	core, logs := observer.New(zap.InfoLevel)
	cfg, level := config.Default(), zap.NewAtomicLevel()
	r := reloader{cfg: cfg, load: func() (*config.Config, error) { return &cfg, nil }, level: &level, gate: &gate{}, servers: []*server.Server{s}, log: zap.New(core)}
	good, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ key, want string }{
		{string(good), "reloaded certificates, passwords, access rules, workloads and the log level"},
		{"broken", "reloaded passwords, access rules, workloads and the log level"},
		{"broken", "reloaded passwords, access rules, workloads and the log level"},
		{string(good), "reloaded certificates, passwords, access rules, workloads and the log level"},
	} {
		if err := os.WriteFile(key, []byte(step.key), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reload()
		if got := logs.TakeAll(); len(got) != 1 || got[0].Message != step.want {
			t.Errorf("with the key %.6q: %v, want %s", step.key, got, step.want)
		}
	}
}

// SIGHUP reads the keys of signatures again. Those in force stay if one can't be read.
func TestReload_SignatureKeys(t *testing.T) {
	key := filepath.Join(t.TempDir(), "cosign.pub")
	good, err := os.ReadFile("../signature/testdata/ours.pub")
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(key, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	cfg, level := config.Default(), zap.NewAtomicLevel()
	cfg.Policy.Signatures = []config.SignatureRule{{Repositories: []string{"a"}, Keys: []string{key}, Action: "refuse"}}
	rules, err := signatureRules(&cfg.Policy)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.ErrorLevel)
	r := reloader{cfg: cfg, load: func() (*config.Config, error) { return &cfg, nil }, level: &level, gate: &gate{}, policy: signature.New(rules), log: zap.New(core)}
	repo := registry.New(registry.Options{Store: memory.New(), IndexParents: true}).Repository("a")
	registrytest.PushImage(t, repo, "v1", "1", "layer")
	m, err := repo.Peek(t.Context(), oci.Reference{Tag: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Policy.Signatures = []config.SignatureRule{{Repositories: []string{"a"}, Keys: []string{key}, Action: "warn"}} // tells the rules apart
	for _, step := range []struct {
		content []byte
		errors  int
	}{{[]byte("broken"), 1}, {good, 0}} {
		write(step.content)
		r.reload()
		if got := logs.TakeAll(); len(got) != step.errors {
			t.Errorf("%.20q: %v", step.content, got)
		}
		if res, err := r.policy.Check(t.Context(), repo, m); err != nil || res.Refuse != (step.errors > 0) {
			t.Errorf("%.20q: %+v, %v", step.content, res, err)
		}
	}
}

// SIGHUP reads the workloads again.
func TestReload_Workloads(t *testing.T) {
	workload := func(names ...string) *config.Config {
		cfg := config.Default()
		cfg.Auth = &config.Auth{Service: &config.TokenService{Builtin: &config.BuiltinService{}}}
		for _, name := range names {
			cfg.Auth.Service.Builtin.Workloads = append(cfg.Auth.Service.Builtin.Workloads, config.Workload{
				Name: name, Issuer: "https://ci.example.org", Audience: "r", Claims: map[string]string{"sub": name}, Repositories: []string{"a"}, Allow: []string{"pull"},
			})
		}
		return &cfg
	}
	level := zap.NewAtomicLevel()
	g := &gate{workloads: auth.NewWorkloads(nil)}
	first, next := workload(), workload("web", "tools")
	r := reloader{cfg: *first, load: func() (*config.Config, error) { return next, nil }, level: &level, gate: g, log: zap.NewNop()}
	for _, names := range [][]string{{"web", "tools"}, {"web"}, {}} {
		next = workload(names...)
		r.reload()
		if got := g.workloads.Names(); strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("in force: %v, want %v", got, names)
		}
		if got := len(r.cfg.Auth.Service.Builtin.Workloads); got != len(names) {
			t.Errorf("the configuration in force has %d", got)
		}
	}
	if len(first.Auth.Service.Builtin.Workloads) != 0 {
		t.Error("the configuration of the start was changed")
	}
}
