package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/verify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/filesystem"
)

const asCommand = "SLIPWAY_TEST_AS_COMMAND"

// TestMain lets the test binary be the registry's command, in a process of its
// own that can be killed.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	program.Main()
	os.Exit(m.Run())
}

// separate is the registry's command on a root directory, in its own process.
func separate(root string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY="+root, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// volume is a root directory, and what every file of the tree holds as long as
// nobody deletes anything.
type volume struct {
	t    *testing.T
	root string
	want map[string]string // by path below the root
}

func (v *volume) write(path, content string) {
	v.t.Helper()
	ok(v.t, os.MkdirAll(filepath.Dir(v.root+path), 0o755))
	ok(v.t, os.WriteFile(v.root+path, []byte(content), 0o644)) //nolint:gosec // what any registry may read
	v.want[path] = content
}

func (v *volume) remove(path string) {
	v.t.Helper()
	ok(v.t, os.Remove(v.root+path))
	delete(v.want, path)
}

// picture is an image: its repository and tag, and its digests.
type picture struct {
	repo                    oci.Name
	tag                     oci.Tag
	manifest, config, layer oci.Digest
}

func (v *volume) blob(repo oci.Name, content string) oci.Digest {
	d := oci.SHA256.FromBytes([]byte(content))
	v.write(layout.BlobData(d), content)
	v.write(layout.LayerLink(repo, d), string(layout.Link(d)))
	return d
}

// push writes an image, as a registry does.
func (v *volume) push(i int) picture {
	p := picture{repo: oci.Name(fmt.Sprint("r", i%4)), tag: oci.Tag(fmt.Sprint("t", i))}
	config, layer := fmt.Sprintf(`{"config":%d}`, i), strings.Repeat(fmt.Sprint("layer ", i), 100)
	p.config, p.layer = v.blob(p.repo, config), v.blob(p.repo, layer)
	body := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},`+
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":%d}]}`, oci.MediaTypeManifest, p.config, len(config), p.layer, len(layer))
	p.manifest = oci.SHA256.FromBytes([]byte(body))
	link := string(layout.Link(p.manifest))
	v.write(layout.BlobData(p.manifest), body)
	v.write(layout.RevisionLink(p.repo, p.manifest), link)
	v.write(layout.TagIndex(p.repo, p.tag, p.manifest), link)
	v.write(layout.TagCurrent(p.repo, p.tag), link)
	return p
}

// damage damages an image in one of several ways, and returns what has to be
// quarantined for it.
func (v *volume) damage(p picture, way int) []string {
	tag := layout.TagCurrent(p.repo, p.tag)
	switch way % 5 {
	case 0:
		v.write(layout.BlobData(p.layer), "rotten "+string(p.tag))
		return []string{layout.BlobData(p.layer), layout.LayerLink(p.repo, p.layer)}
	case 1:
		v.write(layout.BlobData(p.manifest), "rotten "+string(p.tag))
		return []string{layout.BlobData(p.manifest), layout.RevisionLink(p.repo, p.manifest), tag}
	case 2:
		v.remove(layout.BlobData(p.manifest))
		return []string{layout.RevisionLink(p.repo, p.manifest), tag, layout.TagIndex(p.repo, p.tag, p.manifest)}
	case 3:
		v.write(tag, "")
		return []string{tag}
	default:
		v.remove(layout.BlobData(p.config))
		return []string{layout.LayerLink(p.repo, p.config)}
	}
}

// found is the files of the tree, by their paths, and those in the quarantine,
// by the paths that they had.
func (v *volume) found() (inPlace, quarantined map[string]string) {
	v.t.Helper()
	inPlace, quarantined = map[string]string{}, map[string]string{}
	ok(v.t, filepath.WalkDir(v.root+"/docker", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(file) //nolint:gosec // of the test's own
		path := strings.TrimPrefix(file, v.root)
		if rest, is := strings.CutPrefix(path, layout.Quarantine+"/"); is {
			_, path, _ = strings.Cut(rest, "/")
			quarantined["/"+path] = string(content)
		} else if path != layout.Verified {
			inPlace[path] = string(content)
		}
		return err
	}))
	return inPlace, quarantined
}

// checkComplete checks that each file is in its place or in the quarantine, and
// that there are no others.
func (v *volume) checkComplete() (inPlace, quarantined map[string]string) {
	v.t.Helper()
	inPlace, quarantined = v.found()
	for path, want := range v.want {
		got, is := inPlace[path]
		if !is {
			got, is = quarantined[path]
		}
		if !is || got != want {
			v.t.Errorf("%s is lost: found %v, %.20q, want %.20q", path, is, got, want)
		}
	}
	for _, files := range []map[string]string{inPlace, quarantined} {
		for path := range files {
			if _, known := v.want[path]; !known {
				v.t.Errorf("%s was not written by anybody", path)
			}
		}
	}
	return inPlace, quarantined
}

// repair runs to the end.
func (v *volume) repair() *verify.Report {
	v.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := separate(v.root, "verify", "--repair", "--json")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run() // 1 if problems remain: a missing blob
	var report verify.Report
	if json.Unmarshal(stdout.Bytes(), &report) != nil {
		v.t.Fatalf("%v: %s %s", err, &stdout, &stderr)
	}
	return &report
}

// repairKilled kills a repair (kill -9) at some moment. ended says that it came to its end before.
func (v *volume) repairKilled(at time.Duration) (ended bool) {
	v.t.Helper()
	cmd := separate(v.root, "verify", "--repair", "--json")
	ok(v.t, cmd.Start())
	time.Sleep(at)
	ok(v.t, cmd.Process.Kill())
	return cmd.Wait() == nil || cmd.ProcessState.Exited()
}

// A repair that is killed again and again at any moment deletes nothing, leaves
// what is healthy where it is, and the last one has nothing left to do.
func TestKilledRepairs(t *testing.T) {
	const rounds, batch = 20, 5
	v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
	var healthy []picture
	for i := range 60 {
		healthy = append(healthy, v.push(i))
	}
	for i := range 2 * batch {
		v.damage(v.push(1000+i), i)
	}
	start := time.Now()
	v.repair()
	takes := time.Since(start)
	var damaged []string
	killed, midway := 0, 0
	for round := range rounds {
		for i := range batch {
			damaged = append(damaged, v.damage(v.push(2000+round*batch+i), round+i)...)
		}
		if v.repairKilled(takes/4 + rand.N(takes)*3/4) {
			takes = takes * 3 / 4
		} else {
			killed++
		}
		if _, done := v.found(); len(done) > 0 && !all(damaged, done) {
			midway++
		}
	}
	t.Logf("a repair takes %v; %d of %d were killed, %d with work left", takes, killed, rounds, midway)
	if killed < rounds/4 {
		t.Errorf("only %d of %d repairs were killed before their end", killed, rounds)
	}
	v.repair()
	if again := v.repair(); again.Quarantined > 0 {
		t.Errorf("the repair after one that was not killed quarantined %d objects", again.Quarantined)
	}
	inPlace, quarantined := v.checkComplete()
	for _, path := range damaged {
		_, is := quarantined[path]
		_, still := inPlace[path]
		if !is || still {
			t.Errorf("%s: in the quarantine %v, in its place %v", path, is, still)
		}
	}
	v.pullAll(healthy)
}

func all(paths []string, in map[string]string) bool {
	for _, path := range paths {
		if _, is := in[path]; !is {
			return false
		}
	}
	return true
}

// pullAll reads the images through a registry.
func (v *volume) pullAll(images []picture) {
	v.t.Helper()
	store, err := filesystem.Open(v.root)
	ok(v.t, err)
	defer store.Close()
	rules := registry.New(registry.Options{Store: store})
	for _, p := range images {
		repo := rules.Repository(p.repo)
		if m, err := repo.Manifest(v.t.Context(), oci.Reference{Tag: p.tag}); err != nil || m.Digest != p.manifest {
			v.t.Errorf("%s:%s is %v, %v", p.repo, p.tag, m, err)
		}
		for _, d := range []oci.Digest{p.config, p.layer} {
			b, err := repo.OpenBlob(v.t.Context(), d)
			if err != nil {
				v.t.Errorf("%s: %v", d, err)
				continue
			}
			content, err := io.ReadAll(b)
			if got := oci.SHA256.FromBytes(content); err != nil || got != d {
				v.t.Errorf("%s reads as %s, %v", d, got, err)
			}
			ok(v.t, b.Close())
		}
	}
}
