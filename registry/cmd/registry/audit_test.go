package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit/audittest"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
)

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
	time.Sleep(50 * time.Millisecond) // a file that is just written has no version yet, and retention keeps such a tag
	do := func(want int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(args, "--config", path), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
	do(0, "usage")
	do(0, "verify")
	do(0, "retention", "plan")
	do(0, "uploads", "delete", "--dry-run")
	do(0, "garbage-collect", "--dry-run")
	if _, err := os.Stat(file); err == nil {
		t.Errorf("commands that only look are in the log: %+v", audittest.Read(t, file))
	}
	do(0, "retention", "apply", "--yes")
	do(0, "uploads", "delete", "-y")
	do(0, "garbage-collect", "-m", "-q")
	do(0, "verify", "--repair")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"import", "-c", path, filepath.Join(dir, "nothing"), "team/new"}, nil, &out, &errs); code == 0 {
		t.Error("an import of nothing succeeded")
	}
	want := []string{
		"delete team/app old1 succeeded", "maintenance  retention apply succeeded", "maintenance  uploads delete succeeded",
		"maintenance  garbage-collect succeeded", "maintenance  verify succeeded", "maintenance team/new import failed",
	}
	var got []string
	for _, r := range audittest.Read(t, file) {
		if r.Who != "command line" || r.From == "" || r.Time.IsZero() {
			t.Errorf("%+v", r)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Event, r.Repository, r.Reference, r.Result))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// pushTag pushes an image to a repository without a server.
func pushTag(t *testing.T, path string, name oci.Name, tag oci.Tag) {
	t.Helper()
	cfg, _, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cfg.Storage.Filesystem.RootDirectory, 0o700); err != nil {
		t.Fatal(err)
	}
	e, err := app.Open(t.Context(), cfg, built(), zap.NewNop(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	manifest := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[]}`)
	if _, err := e.Registry.Repository(name).PutManifest(t.Context(), oci.Reference{Tag: tag}, oci.MediaTypeIndex, manifest, nil); err != nil {
		t.Fatal(err)
	}
}
