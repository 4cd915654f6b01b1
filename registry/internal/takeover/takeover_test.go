package takeover

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/filesystem"
)

// volume.tar.gz was written by the code of the version before (commit a45f881),
// whose processes were killed in the middle of all that moves something: a
// collection between its two looks, a deletion before its tags were gone, retention
// and verification with an object moved. digests.json in it names the manifests.

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpack returns the root of a volume and the digests in it.
func unpack(t *testing.T) (root string, digests map[string]oci.Digest) {
	t.Helper()
	root = t.TempDir()
	f, err := os.Open("testdata/volume.tar.gz")
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			check(t, os.MkdirAll(path, 0o755))
			continue
		}
		content, err := io.ReadAll(r)
		check(t, err)
		check(t, os.WriteFile(path, content, 0o644))
		check(t, os.Chtimes(path, h.ModTime, h.ModTime))
	}
	content, err := os.ReadFile(root + "/digests.json")
	check(t, err)
	check(t, json.Unmarshal(content, &digests))
	check(t, os.Remove(root+"/digests.json"))
	return root, digests
}

func open(t *testing.T, root string) (*filesystem.Store, *registry.Registry) {
	t.Helper()
	s, err := filesystem.Open(root)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s, registry.New(registry.Options{Store: s, Coordinator: s.Coordinator(), DeleteEnabled: true})
}

// files are those of the tree, without directories of this process.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == ".locks" || e.Name() == ".staging") {
			return fs.SkipDir
		}
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(path, root))
		}
		return err
	}))
	return all
}

func tags(t *testing.T, rules *registry.Registry, name oci.Name) string {
	t.Helper()
	list, _, err := rules.Repository(name).Tags(t.Context(), -1, "")
	check(t, err)
	return strings.Join(list, " ")
}

func TestTakeover(t *testing.T) {
	root, digests := unpack(t)
	if !Pending(root) {
		t.Fatal("there is nothing to do")
	}
	s, rules := open(t, root)
	report, err := Run(t.Context(), root, s)
	check(t, err)
	if report != (Report{Restored: 9, Deletions: 1}) {
		t.Errorf("got %+v", report)
	}
	for repository, want := range map[oci.Name]string{
		"healthy": "v1", "team/garbage": "kept", "deletion": "moved stays", "undeleted": "v1", "expiring": "old v1.tmp", "damaged": "v1",
	} {
		if got := tags(t, rules, repository); got != want {
			t.Errorf("%s has the tags %q, want %q", repository, got, want)
		}
	}
	for repository, manifests := range map[oci.Name][]string{
		"healthy": {"healthy"}, "team/garbage": {"garbage", "kept"}, "deletion": {"stays", "moved"}, "undeleted": {"undeleted"}, "expiring": {"expiring"},
	} {
		for _, name := range manifests {
			m, err := rules.Repository(repository).Manifest(t.Context(), oci.Reference{Digest: digests[name]})
			if err != nil {
				t.Errorf("%s of %s: %v", name, repository, err)
				continue
			}
			parsed, err := oci.ReadManifest(m.Bytes)
			check(t, err)
			for _, d := range append(parsed.Layers, *parsed.Config) {
				if _, err := rules.Repository(repository).StatBlob(t.Context(), d.Digest); err != nil {
					t.Errorf("%s of %s: %v", d.Digest, repository, err)
				}
			}
		}
	}
	if _, err := rules.Repository("deletion").Manifest(t.Context(), oci.Reference{Digest: digests["deleted"]}); err == nil {
		t.Error("the deleted manifest is back")
	}
	if _, err := s.Stat(t.Context(), layout.BlobData(digests["damaged"])); err != nil {
		t.Errorf("the damaged blob: %v", err)
	}
	if Pending(root) {
		t.Error("something is left to do")
	}
	for _, file := range files(t, root) {
		if !strings.HasPrefix(file, layout.Blobs) && !strings.HasPrefix(file, layout.Repositories) {
			t.Errorf("left: %s", file)
		}
	}
}

// What was written since stays, and what was being verified is kept beside it.
func TestTakeoverKeepsWhatIsNewer(t *testing.T) {
	root, digests := unpack(t)
	repaired := layout.BlobData(digests["damaged"])
	check(t, os.MkdirAll(filepath.Dir(root+repaired), 0o755))
	check(t, os.WriteFile(root+repaired, []byte("damaged"), 0o644))
	tag := layout.TagCurrent("expiring", "old")
	check(t, os.MkdirAll(filepath.Dir(root+tag), 0o755))
	check(t, os.WriteFile(root+tag, layout.Link(digests["healthy"]), 0o644))
	s, _ := open(t, root)
	_, err := Run(t.Context(), root, s)
	check(t, err)
	for path, want := range map[string]string{repaired: "damaged", quarantine + repaired: "DAMAGED", tag: string(digests["healthy"])} {
		if got, err := os.ReadFile(root + path); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
}

// Interrupted anywhere, it ends the same when it is repeated.
func TestTakeoverIsRepeated(t *testing.T) {
	root, _ := unpack(t)
	s, _ := open(t, root)
	_, err := Run(t.Context(), root, s)
	check(t, err)
	want := files(t, root)
	for step := range 4 {
		root, _ := unpack(t)
		s, _ := open(t, root)
		v := &volume{root: root, store: s, hardLink: os.Link}
		for _, f := range []func() error{
			func() error { return v.restoreTags(t.Context()) },
			func() error { return v.restoreGarbage(t.Context()) },
			func() error { return v.restoreChecked(t.Context()) },
			func() error { return v.finishDeletions(t.Context()) },
		}[:step+1] {
			check(t, f())
		}
		// Killed between the second name of a file and the end of the first.
		check(t, filepath.WalkDir(root+setAside, func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".link") {
				key := strings.TrimSuffix(strings.TrimPrefix(path, root+setAside), ".link") + "/link"
				check(t, v.makeDirectory(filepath.Dir(key)))
				check(t, os.Link(path, root+key))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}))
		_, err := Run(t.Context(), root, s)
		check(t, err)
		if got := files(t, root); !slices.Equal(got, want) {
			t.Errorf("after step %d: %d files, want %d", step, len(got), len(want))
		}
	}
}

// Where a file has one name only it is moved, and nothing is overwritten.
func TestTakeoverWithoutHardLinks(t *testing.T) {
	root := t.TempDir()
	v := &volume{root: root, hardLink: func(file, name string) error {
		return &os.LinkError{Op: "link", Old: file, New: name, Err: syscall.EPERM}
	}}
	file := root + "/file"
	check(t, os.WriteFile(file, []byte("x"), 0o644))
	check(t, v.link(file, "/a/b"))
	if got, err := os.ReadFile(root + "/a/b"); err != nil || string(got) != "x" || exists(file) {
		t.Errorf("it holds %q, %v", got, err)
	}
	check(t, os.WriteFile(file, []byte("other"), 0o644))
	if err := v.link(file, "/a/b"); !errors.Is(err, fs.ErrExist) || !exists(file) {
		t.Errorf("over another file: %v", err)
	}
}

// Several processes that start at once take it over together.
func TestTakeoverAtOnce(t *testing.T) {
	root, _ := unpack(t)
	var all sync.WaitGroup
	var restored atomic.Int64
	for range 4 {
		s, _ := open(t, root)
		all.Go(func() {
			report, err := Run(context.Background(), root, s)
			restored.Add(int64(report.Restored))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if Pending(root) || restored.Load() < 9 {
		t.Errorf("%d objects restored, something left: %v", restored.Load(), Pending(root))
	}
	_, rules := open(t, root)
	for repository, want := range map[oci.Name]string{"team/garbage": "kept", "deletion": "moved stays", "expiring": "old v1.tmp"} {
		if got := tags(t, rules, repository); got != want {
			t.Errorf("%s has the tags %q, want %q", repository, got, want)
		}
	}
}

func TestNothingToTakeOver(t *testing.T) {
	root := t.TempDir()
	if Pending(root) || Pending(root+"/none") {
		t.Error("an empty volume has something to do")
	}
	s, _ := open(t, root)
	if report, err := Run(t.Context(), root, s); err != nil || report != (Report{}) {
		t.Errorf("got %+v, %v", report, err)
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("made %q", left)
	}
}
