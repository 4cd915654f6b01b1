package collect

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

// volume writes a registry's tree by hand, as distribution does.
type volume struct {
	t       testing.TB
	s       storage.Store
	put     func(key string, content []byte, age time.Duration) // written so long ago
	serving bool                                                // a process serves the store
	remote  bool                                                // an object store
	root    string                                              // of files
}

// onStores runs the test on each store there is, while nobody serves it and beside
// a server. A bucket's collection takes minutes, which pass at once in a bubble. Beside a server on files
// each takes seven seconds of real time: few tests need that.
func onStores(t *testing.T, test func(t *testing.T, x volume)) {
	beside := func(open func(*testing.T) volume) func(*testing.T) {
		return func(t *testing.T) {
			x := open(t)
			x.serving = true
			x.serve()
			test(t, x)
		}
	}
	t.Run("memory", func(t *testing.T) { test(t, onMemory(t)) })
	t.Run("memory beside a server", beside(onMemory))
	t.Run("files", func(t *testing.T) { test(t, onDisk(t)) })
	t.Run("bucket", func(t *testing.T) { synctest.Test(t, beside(onBucket)) })
	switch t.Name() {
	case "TestDeletedManifestIsFreed", "TestRecentLinksStayBesideAServer":
		t.Run("files beside a server", func(t *testing.T) {
			t.Parallel()
			beside(onDisk)(t)
		})
	}
}

func onMemory(t *testing.T) volume {
	m := memory.New()
	return volume{t: t, s: m, put: putter(t, m, m.SetClock)}
}

func onBucket(t *testing.T) volume {
	b := hostiletest.New(hostiletest.Options{})
	p := b.Process()
	t.Cleanup(func() { p.Close() })
	return volume{t: t, s: p, put: putter(t, p, b.SetClock), remote: true}
}

// putter sets the clock of the store for each put.
func putter(t *testing.T, s storage.Store, set func(func() time.Time)) func(string, []byte, time.Duration) {
	return func(key string, content []byte, age time.Duration) {
		t.Helper()
		set(func() time.Time { return time.Now().Add(-age) })
		defer set(time.Now)
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: content}}); err != nil {
			t.Fatal(err)
		}
	}
}

func onDisk(t *testing.T) volume {
	root := t.TempDir()
	s, err := filesystem.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return volume{t: t, s: s, root: root, put: func(key string, content []byte, age time.Duration) {
		t.Helper()
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: key, Content: content}}); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(root+key, then, then); err != nil {
			t.Fatal(err)
		}
	}}
}

// serve makes the store one that a process serves.
func (x volume) serve() {
	x.t.Helper()
	unlock, err := x.s.Lock(x.t.Context(), storage.LockServers, true)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(unlock)
}

const day = 24 * time.Hour

func (x volume) blob(repo oci.Name, content string) oci.Digest {
	x.t.Helper()
	d := oci.SHA256.FromBytes([]byte(content))
	x.put(layout.BlobData(d), []byte(content), day)
	x.put(layout.LayerLink(repo, d), layout.Link(d), day)
	return d
}

type descriptor struct {
	MediaType string     `json:"mediaType,omitempty"`
	Digest    oci.Digest `json:"digest"`
}

type document struct {
	Config    *descriptor  `json:"config,omitempty"`
	Layers    []descriptor `json:"layers,omitempty"`
	Manifests []descriptor `json:"manifests,omitempty"`
	Subject   *descriptor  `json:"subject,omitempty"`
}

func (x volume) manifest(repo oci.Name, tag oci.Tag, doc document) oci.Digest {
	x.t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		x.t.Fatal(err)
	}
	d := oci.SHA256.FromBytes(body)
	x.put(layout.BlobData(d), body, day)
	x.put(layout.RevisionLink(repo, d), layout.Link(d), day)
	if tag != "" {
		x.put(layout.TagIndex(repo, tag, d), layout.Link(d), day)
		x.put(layout.TagCurrent(repo, tag), layout.Link(d), day)
	}
	return d
}

// image is a manifest with a config and a layer of its own.
func (x volume) image(repo oci.Name, tag oci.Tag, seed string) (manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	blobs = []oci.Digest{x.blob(repo, "config "+seed), x.blob(repo, "layer "+seed)}
	return x.manifest(repo, tag, document{Config: &descriptor{Digest: blobs[0]}, Layers: []descriptor{{Digest: blobs[1]}}}), blobs
}

func (x volume) remove(key string) {
	x.t.Helper()
	if err := x.s.Apply(x.t.Context(), nil, storage.Stage{{Key: key, Delete: true}}); err != nil {
		x.t.Fatal(err)
	}
}

func (x volume) has(path string) bool {
	_, err := x.s.Stat(x.t.Context(), path)
	return err == nil
}

func (x volume) want(what string, path string, there bool) {
	x.t.Helper()
	if got := x.has(path); got != there {
		x.t.Errorf("%s: there = %v, want %v", what, got, there)
	}
}

// whole checks a manifest and what it needs.
func (x volume) whole(what string, repo oci.Name, manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	x.want(what+": revision", layout.RevisionLink(repo, manifest), true)
	x.want(what+": bytes", layout.BlobData(manifest), true)
	for _, b := range blobs {
		x.want(what+": blob link", layout.LayerLink(repo, b), true)
		x.want(what+": blob", layout.BlobData(b), true)
	}
}

func (x volume) gone(what string, repo oci.Name, manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	x.want(what+": revision", layout.RevisionLink(repo, manifest), false)
	x.want(what+": bytes", layout.BlobData(manifest), false)
	for _, b := range blobs {
		x.want(what+": blob link", layout.LayerLink(repo, b), false)
		x.want(what+": blob", layout.BlobData(b), false)
	}
}

func (x volume) run(o Options) Report {
	x.t.Helper()
	report, err := x.tryRun(o)
	if err != nil {
		x.t.Fatal(err)
	}
	return report
}

func (x volume) tryRun(o Options) (Report, error) {
	x.t.Helper()
	o.Store, o.Remote = x.s, x.remote
	return Run(x.t.Context(), o)
}

func TestDeletedManifestIsFreed(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		kept, keptBlobs := x.image("a", "v1", "kept")
		old, oldBlobs := x.image("a", "v2", "old")
		x.remove(layout.RevisionLink("a", old))
		x.remove(layout.TagCurrent("a", "v2"))
		report := x.run(Options{Age: time.Hour})
		x.whole("kept", "a", kept, keptBlobs)
		x.gone("deleted", "a", old, oldBlobs)
		if report.Blobs != (Count{6, 3, 3}) || report.Manifests != (Count{1, 0, 1}) || report.LayerLinks != 2 {
			t.Errorf("report = %+v", report)
		}
		if b := report.Bytes; b.Found != b.Freed+b.Kept || b.Freed == 0 {
			t.Errorf("bytes = %+v", b)
		}
	})
}

func TestUntagged(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		tagged, taggedBlobs := x.image("a", "v1", "tagged")
		child, childBlobs := x.image("a", "", "child")
		inner := x.manifest("a", "", document{Manifests: []descriptor{{Digest: child}}})
		index := x.manifest("a", "multi", document{Manifests: []descriptor{{Digest: inner}}})
		signature, signatureBlobs := x.blob("a", "signature"), []oci.Digest{}
		referrer := x.manifest("a", "", document{Layers: []descriptor{{Digest: signature}}, Subject: &descriptor{Digest: child}})
		onReferrer := x.manifest("a", "", document{Subject: &descriptor{Digest: referrer}})
		old, oldBlobs := x.image("a", "", "old")
		onOld := x.manifest("a", "", document{Subject: &descriptor{Digest: old}})

		x.run(Options{Age: time.Hour})
		x.whole("untagged without -m", "a", old, oldBlobs)
		report := x.run(Options{Age: time.Hour, DeleteUntagged: true})
		x.whole("tagged", "a", tagged, taggedBlobs)
		for what, d := range map[string]oci.Digest{"index": index, "inner index": inner, "referrer": referrer, "referrer of a referrer": onReferrer} {
			x.whole(what, "a", d, signatureBlobs)
		}
		x.whole("child of an index of an index", "a", child, childBlobs)
		x.want("signature", layout.BlobData(signature), true)
		x.gone("untagged", "a", old, oldBlobs)
		x.gone("referrer of what is gone", "a", onOld, nil)
		if report.Manifests != (Count{8, 2, 6}) {
			t.Errorf("manifests = %+v", report.Manifests)
		}
	})
}

// A cache keeps what was pulled by digest: nobody tags that.
func TestUntagged_InCaches(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		cached, cachedBlobs := x.image("hub/a", "", "cached")
		old, oldBlobs := x.image("a", "", "old")
		x.run(Options{Age: time.Hour, DeleteUntagged: true, KeepUntagged: func(name oci.Name) bool { return strings.HasPrefix(string(name), "hub/") }})
		x.whole("in a cache", "hub/a", cached, cachedBlobs)
		x.gone("untagged", "a", old, oldBlobs)
	})
}

func TestSharedBetweenRepositories(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		a, blobs := x.image("a", "v1", "shared")
		b, _ := x.image("b/c", "v1", "shared")
		x.remove(layout.RevisionLink("a", a))
		x.run(Options{})
		x.whole("the other repository", "b/c", b, blobs)
		x.want("link of the first", layout.LayerLink("a", blobs[0]), false)
	})
}

// TestNamesOfOthers: distribution takes names that no request here can have, as
// the name of a host before the repository's. What is in them is needed all the
// same, and is there on the way back.
func TestNamesOfOthers(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		for _, name := range []oci.Name{"FOO/bar", "Registry.example.org/team/app", "a.example.org/" + oci.Name(strings.Repeat("x/", 125)+"end"), "n-/a"} {
			manifest, blobs := x.image(name, "v1", string(name))
			x.run(Options{DeleteUntagged: true})
			x.whole(string(name), name, manifest, blobs)
		}
	})
}

// What was confirmed to a client stays beside a server, and only there.
func TestRecentLinksStayBesideAServer(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		told, untold := x.blob("a", "told"), x.blob("a", "untold")
		x.put(layout.LayerLink("a", told), layout.Link(told), time.Minute)
		child, childBlobs := x.image("a", "", "child")
		x.put(layout.RevisionLink("a", child), layout.Link(child), time.Minute)
		report := x.run(Options{Age: time.Hour, DeleteUntagged: true})
		x.want("old blob", layout.BlobData(untold), false)
		if !x.serving {
			x.want("blob when nobody serves", layout.BlobData(told), false)
			x.gone("manifest when nobody serves", "a", child, childBlobs)
			return
		}
		x.want("recent blob", layout.BlobData(told), true)
		x.want("recent link", layout.LayerLink("a", told), true)
		x.whole("recent manifest", "a", child, childBlobs)
		if report.Kept.Recent.Blobs != 4 || report.Kept.InUse.Blobs != 0 {
			t.Errorf("kept = %+v", report.Kept)
		}
		x.run(Options{Age: 0, KeepAge: true, DeleteUntagged: true})
		x.want("blob at age 0", layout.BlobData(told), false)
		x.gone("manifest at age 0", "a", child, childBlobs)
	})
}

func TestUnreadableManifest(t *testing.T) {
	for name, spoil := range map[string]func(x volume, d oci.Digest){
		"missing":   func(x volume, d oci.Digest) { x.remove(layout.BlobData(d)) },
		"truncated": func(x volume, d oci.Digest) { x.put(layout.BlobData(d), []byte("{"), day) },
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, x volume) {
				bad, badBlobs := x.image("bad", "v1", "bad")
				spoil(x, bad)
				loose := x.blob("bad", "loose")
				untagged, untaggedBlobs := x.image("bad", "", "untagged")
				x.image("good", "", "untagged elsewhere")
				garbage := x.blob("good", "garbage")
				report, err := x.tryRun(Options{DeleteUntagged: true})
				if !errors.Is(err, ErrIncomplete) || len(report.Problems) != 1 || report.Problems[0].Manifest != bad {
					t.Fatalf("got %v, %+v", err, report.Problems)
				}
				for _, b := range append(badBlobs, loose) {
					x.want("blob of the repository left alone", layout.BlobData(b), true)
					x.want("its link", layout.LayerLink("bad", b), true)
				}
				x.whole("untagged there", "bad", untagged, untaggedBlobs)
				x.want("garbage of another repository", layout.BlobData(garbage), false)
				if report.Kept.Unreadable.Blobs == 0 {
					t.Errorf("kept = %+v", report.Kept)
				}
			})
		})
	}
}

func TestUploadsAreLeft(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		x.put(layout.UploadStartedAt("a/b", "id"), layout.StartedAt(time.Now()), day)
		x.put(layout.UploadData("a/b", "id"), []byte("half"), day)
		x.run(Options{DeleteUntagged: true})
		x.want("upload", layout.UploadData("a/b", "id"), true)
	})
}

func TestHistory(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		old, _ := x.image("b", "v1", "old")
		current, _ := x.image("b", "v1", "current")
		x.run(Options{DeleteUntagged: true})
		x.want("history of what is gone", layout.TagIndex("b", "v1", old), false)
		x.want("history of what is there", layout.TagIndex("b", "v1", current), true)
	})
}

// A tag whose manifest is gone goes once it is old, with all that belongs to it.
func TestDanglingTag(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		_, _ = x.image("b", "v1", "kept")
		gone, _ := x.image("b", "v2", "gone")
		young, _ := x.image("b", "v3", "young")
		x.remove(layout.RevisionLink("b", gone))
		x.remove(layout.RevisionLink("b", young))
		x.put(layout.TagCurrent("b", "v3"), layout.Link(young), 0)
		x.run(Options{Age: time.Hour, KeepAge: true})
		x.want("tag that leads somewhere", layout.TagCurrent("b", "v1"), true)
		x.want("dangling tag", layout.TagCurrent("b", "v2"), false)
		x.want("history of a dangling tag", layout.TagIndex("b", "v2", gone), false)
		x.want("young dangling tag", layout.TagCurrent("b", "v3"), true)
	})
}

func TestOtherAlgorithms(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		// As this registry writes it.
		own := oci.SHA512.FromBytes([]byte("own"))
		x.put(layout.BlobData(own), []byte("own"), day)
		x.put(layout.LayerLink("a", own), layout.Link(own), day)
		loose := oci.SHA512.FromBytes([]byte("loose"))
		x.put(layout.BlobData(loose), []byte("loose"), day)
		// As distribution does: an alias.
		target, alias := x.blob("a", "aliased"), oci.SHA512.FromBytes([]byte("aliased"))
		x.put(layout.LayerLink("a", alias), layout.Link(target), day)
		x.manifest("a", "v1", document{Layers: []descriptor{{Digest: own}, {Digest: alias}}})
		x.run(Options{})
		x.want("sha512", layout.BlobData(own), true)
		x.want("loose sha512", layout.BlobData(loose), false)
		x.want("what an alias leads to", layout.BlobData(target), true)
		x.want("alias", layout.LayerLink("a", alias), true)
	})
}

func TestOneAtATime(t *testing.T) {
	onStores(t, func(t *testing.T, x volume) {
		x.image("a", "v1", "one")
		c, err := x.s.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := x.tryRun(Options{}); !errors.Is(err, storage.ErrBusy) {
			t.Errorf("got %v", err)
		}
		if _, err := x.tryRun(Options{DryRun: true}); err != nil {
			t.Errorf("a dry run is held up: %v", err)
		}
	})
}

func TestEvents(t *testing.T) {
	x := onMemory(t)
	x.image("a", "v1", "kept")
	x.image("a", "", "old")
	var got []string
	names := map[Kind]string{Repository: "repository", Manifest: "manifest", Blob: "blob", OldManifest: "old manifest", OldLayer: "old layer", Marked: "marked", OldBlob: "old blob"}
	x.run(Options{DeleteUntagged: true, Tell: func(e Event) { got = append(got, names[e.Kind]) }})
	want := "repository manifest blob blob old manifest old layer old layer marked old blob old blob old blob"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// Somebody who watches a run sees its phase, and what it has looked at.
func TestProgress(t *testing.T) {
	x := onMemory(t)
	x.image("web/app", "v1", "one")
	m, _ := x.image("web/db", "v1", "two")
	x.remove(layout.RevisionLink("web/db", m))
	p := &schedule.Progress{}
	report := x.run(Options{Progress: p, Tell: func(e Event) {
		if e.Kind == Marked && (p.Phase() != "reading repositories" || p.Repositories.Load() != 2 || p.Manifests.Load() != 1) {
			t.Errorf("%s: %d repositories and %d manifests", p.Phase(), p.Repositories.Load(), p.Manifests.Load())
		}
	}})
	if p.Phase() != "freeing unneeded blobs" || p.Repositories.Load() != 0 || p.Blobs.Load() != report.Blobs.Found || p.Bytes.Load() != report.Bytes.Found || p.Blobs.Load() != 6 {
		t.Errorf("%s: %d blobs with %d bytes, the report has %+v", p.Phase(), p.Blobs.Load(), p.Bytes.Load(), report)
	}
}
