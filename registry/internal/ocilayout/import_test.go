package ocilayout

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// layoutOf exports the tags of a repository, and then annotates each entry of the index.
func layoutOf(t *testing.T, rules *registry.Registry, annotate func(tag string) map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	_, err := Export(t.Context(), puller(rules), []Item{{Name: "src"}}, dir)
	check(t, err)
	file := filepath.Join(dir, indexFile)
	content, err := os.ReadFile(file)
	check(t, err)
	var x index
	check(t, json.Unmarshal(content, &x))
	for i := range x.Manifests {
		if tag := x.Manifests[i].Annotations[refName]; tag != "" {
			x.Manifests[i].Annotations = annotate(tag)
		}
	}
	content, err = json.Marshal(x)
	check(t, err)
	check(t, os.WriteFile(file, content, 0o600))
	return dir
}

func nameless(string) map[string]string { return nil }

// A layout that names no tag needs one: an import must not end with images that nobody finds.
func TestImport_Untagged(t *testing.T) {
	rules := newRegistry(memory.New())
	d := image(t, rules.Repository("src"), "one", nil, "v1")
	image(t, rules.Repository("src"), "signature", &d)
	for _, annotate := range []func(string) map[string]string{nameless, func(string) map[string]string { return map[string]string{refName: "no tag!"} }} {
		path := layoutOf(t, rules, annotate)
		to := newRegistry(memory.New()).Repository("to")
		if report, err := Import(t.Context(), path, to, ImportOptions{}); !errors.Is(err, ErrUntagged) || report.Manifests != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		report, err := Import(t.Context(), path, to, ImportOptions{Untagged: true})
		check(t, err)
		if report.Tags != 0 || report.Manifests != 2 {
			t.Errorf("untagged: %+v", report)
		}
		report, err = Import(t.Context(), path, to, ImportOptions{Tag: "release"})
		check(t, err)
		if m, err := to.Manifest(t.Context(), oci.Reference{Tag: "release"}); err != nil || m.Digest != d.Digest || report.Tags != 1 || len(report.Notes) != 0 {
			t.Errorf("with a tag: %+v, %v", report, err)
		}
	}
	image(t, rules.Repository("src"), "two", nil, "v2")
	if _, err := Import(t.Context(), layoutOf(t, rules, nameless), newRegistry(memory.New()).Repository("to"), ImportOptions{Tag: "v1"}); err == nil || !strings.Contains(err.Error(), "holds 2 images") {
		t.Errorf("one tag for two images: %v", err)
	}
}

// A small archive takes neither much memory nor blocks the import.
func TestImport_Hostile(t *testing.T) {
	rules := newRegistry(memory.New())
	d := image(t, rules.Repository("src"), "one", nil, "v1")
	blob := func(path string) string { return filepath.Join(path, filepath.FromSlash(blobFile(d.Digest))) }
	for want, change := range map[string]func(path string) error{
		"entry 1: DIGEST_INVALID": func(path string) error {
			return os.WriteFile(filepath.Join(path, indexFile), []byte(`{"manifests":[{"digest":"`+string(d.Digest)+`"},{}`+strings.Repeat(",{}", 1000)+`]}`), 0o600)
		},
		"is no list": func(path string) error {
			return os.WriteFile(filepath.Join(path, indexFile), []byte(`{"manifests":"x"}`), 0o600)
		},
		"is not a regular file": func(path string) error { return errors.Join(os.Remove(blob(path)), syscall.Mkfifo(blob(path), 0o600)) },
		"is larger than 50000 bytes": func(path string) error {
			return os.WriteFile(blob(path), make([]byte, 50_001), 0o600)
		},
	} {
		path := layoutOf(t, rules, func(tag string) map[string]string { return map[string]string{refName: tag} })
		check(t, change(path))
		if report, err := Import(t.Context(), path, newRegistry(memory.New()).Repository("to"), ImportOptions{MaxManifest: 50_000}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want %s", report, err, want)
		}
	}
}

// `docker save app:v1 other:v1` names the tag of both entries v1, and their images in full.
func TestImport_Spread(t *testing.T) {
	rules := newRegistry(memory.New())
	one, two := image(t, rules.Repository("src"), "one", nil, "a"), image(t, rules.Repository("src"), "two", nil, "b")
	image(t, rules.Repository("src"), "signature", &one)
	path := layoutOf(t, rules, func(tag string) map[string]string {
		return map[string]string{refName: "v1", imageName: "docker.io/library/" + tag + ":v1"}
	})
	target := newRegistry(memory.New())
	if _, err := Import(t.Context(), path, target.Repository("all"), ImportOptions{}); !errors.Is(err, ErrSeveral) {
		t.Errorf("two repositories: %v", err)
	}
	if _, err := Import(t.Context(), path, target.Repository("all"), ImportOptions{Merge: true}); err == nil || !strings.Contains(err.Error(), "two manifests for the tag v1") {
		t.Errorf("merged: %v", err)
	}
	report, err := Import(t.Context(), path, target.Repository("all"), ImportOptions{Spread: func(name string) (registry.Repository, error) {
		return target.Repository(oci.Name("all/" + strings.TrimPrefix(name, "docker.io/library/"))), nil
	}})
	check(t, err)
	if report.Tags != 2 || report.Manifests != 2 || len(report.Notes) != 1 || !strings.HasSuffix(report.Notes[0], "names no repository") {
		t.Errorf("%+v", report)
	}
	for name, want := range map[oci.Name]oci.Digest{"all/a": one.Digest, "all/b": two.Digest} {
		m, err := target.Repository(name).Manifest(t.Context(), oci.Reference{Tag: "v1"})
		check(t, err)
		if m.Digest != want {
			t.Errorf("%s is %s, want %s", name, m.Digest, want)
		}
	}
	refused := errors.New("not there")
	if _, err := Import(t.Context(), path, target.Repository("all"), ImportOptions{Spread: func(string) (registry.Repository, error) { return registry.Repository{}, refused }}); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}
