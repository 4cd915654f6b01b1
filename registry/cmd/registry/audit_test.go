package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// readAudit is the lines of an audit log.
func readAudit(t *testing.T, path string) (all []audit.Record) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// Commands that change something are in the audit log with their outcome; those that only
// look are not.
func TestCommands_AreAudited(t *testing.T) {
	dir := t.TempDir()
	file, root, path := filepath.Join(dir, "audit.log"), filepath.Join(dir, "registry"), filepath.Join(dir, "config.yml")
	text := "version: 0.1\nstorage: {filesystem: {rootdirectory: " + root + "}, delete: {enabled: true},\n" +
		"  maintenance: {retention: {rules: [{repositories: ['**'], tags: ['old.*'], action: delete}]}}}\naudit: {file: " + file + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	pushTag(t, path, "team/app", "old1")
	do := func(want int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(args, path), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
	do(0, "usage")
	do(0, "verify")
	do(0, "retention", "plan")
	do(0, "uploads", "purge", "--dry-run")
	do(0, "garbage-collect", "--dry-run")
	if _, err := os.Stat(file); err == nil {
		t.Errorf("commands that only look are in the log: %+v", readAudit(t, file))
	}
	do(0, "retention", "apply")
	do(0, "uploads", "purge")
	do(0, "garbage-collect", "-m", "-q")
	do(0, "verify", "--repair")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"import", path, filepath.Join(dir, "nothing"), "team/new"}, nil, &out, &errs); code == 0 {
		t.Error("an import of nothing succeeded")
	}
	want := []string{
		"delete team/app old1 succeeded", "maintenance  retention apply succeeded", "maintenance  uploads purge succeeded",
		"maintenance  garbage-collect succeeded", "maintenance  verify succeeded", "maintenance team/new import failed",
	}
	var got []string
	for _, r := range readAudit(t, file) {
		if r.Who != "command line" || r.From == "" || r.Time.IsZero() {
			t.Errorf("%+v", r)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Event, r.Repository, r.Reference, r.Result))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// What a schedule does is in the audit log like the command that does it.
func TestSchedules_AreAudited(t *testing.T) {
	store := memory.New()
	b := &backend{Store: store, coordinator: store}
	cfg := config.Default()
	work := &cfg.Storage.Maintenance
	const soon = 50 * time.Millisecond
	work.UploadPurging.Interval, work.GC.Interval, work.Retention.Interval, work.Verify.Interval = soon, soon, soon, soon
	work.GC.Enabled, work.Retention.Enabled, work.Verify.Enabled, work.Verify.Repair = true, true, true, true
	cfg.Proxy.RemoteURL, cfg.Proxy.Interval, cfg.Proxy.Sync.Interval = "http://127.0.0.1:1", time.Hour, soon
	cache, err := openProxy(&cfg, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	lines := make(lineSink)
	acts := audit.New(zap.NewNop(), lines)
	m := &maintenance{cfg: &cfg, store: b, cache: cache, rules: registry.New(registryOptions(&cfg, b, cache, zap.NewNop())), pulls: pulls.NewFile(b), log: zap.NewNop(), acts: acts}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	m.start(ctx, &group)
	missing := []string{"uploads purge", "retention apply", "garbage-collect", "mirror sync", "verify"}
	for patience := time.After(time.Minute); len(missing) > 0; {
		select {
		case line := <-lines:
			var r audit.Record
			if err := json.Unmarshal(line, &r); err != nil || r.Event != "maintenance" || r.Who != "maintenance schedule" || r.From == "" || r.Result == "" {
				t.Errorf("%s %v", line, err)
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == r.Reference })
			continue
		case <-patience:
		}
		t.Errorf("not in the audit log: %q", missing)
		break
	}
	cancel()
	go func() {
		group.Wait()
		if err := acts.Close(); err != nil {
			t.Error(err)
		}
		close(lines)
	}()
	for range lines {
		continue
	}
}

// lineSink is a sink from which a test reads each line.
type lineSink chan []byte

// Write implements io.Writer.
func (l lineSink) Write(b []byte) (int, error) {
	l <- bytes.Clone(b)
	return len(b), nil
}

// Close implements io.Closer.
func (lineSink) Close() error { return nil }

// pushTag pushes an image to a repository without a server.
func pushTag(t *testing.T, path string, name oci.Name, tag oci.Tag) {
	t.Helper()
	cfg, _, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := openBackend(t.Context(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rules := registry.New(registryOptions(cfg, store, nil, zap.NewNop()))
	manifest := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[]}`)
	if _, err := rules.Repository(name).PutManifest(t.Context(), oci.Reference{Tag: tag}, oci.MediaTypeIndex, manifest, nil); err != nil {
		t.Fatal(err)
	}
}

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
	sink, err := audit.OpenFile(file, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	acts := audit.New(zap.NewNop(), sink)
	g, err := openAuth(t.Context(), cfg, nil, nil, acts, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	level := zap.NewAtomicLevel()
	r := reloader{cfg: *cfg, load: func() (*config.Config, error) { return cfg, broken }, level: &level, gate: g, acts: acts, log: zap.NewNop()}
	write("list")
	r.reload()
	write("fetch") // is broken
	broken = os.ErrInvalid
	r.reload()
	g.rules.Reload() // is not said twice
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range readAudit(t, file) {
		got = append(got, r.Event+" "+r.Reference+" "+r.Result)
	}
	want := []string{"reload " + rules + " succeeded", "reload " + rules + " succeeded", "reload configuration succeeded", "reload " + rules + " failed", "reload configuration failed"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
