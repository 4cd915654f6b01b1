package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/filesystem"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// tree writes a registry's tree by hand, as distribution does.
type tree struct {
	t       testing.TB
	d       driver.Driver
	careful bool // runs take the long way though nobody serves
}

// onDrivers runs the test on each driver there is.
func onDrivers(t *testing.T, test func(t *testing.T, x tree)) {
	for _, way := range []string{"alone", "careful"} {
		t.Run("memory "+way, func(t *testing.T) { test(t, tree{t, memory.New(), way == "careful"}) })
		t.Run("filesystem "+way, func(t *testing.T) {
			d, err := filesystem.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			test(t, tree{t, d, way == "careful"})
		})
	}
}

func (x tree) put(path string, content []byte) {
	x.t.Helper()
	if err := x.d.Commit(context.Background(), driver.Stage{{Path: path, Content: content}}); err != nil {
		x.t.Fatal(err)
	}
	x.age(path, 24*time.Hour)
}

// age makes the object look as if it was last changed so long ago.
func (x tree) age(path string, by time.Duration) {
	x.t.Helper()
	if err := x.d.Touch(context.Background(), path, time.Now().Add(-by)); err != nil {
		x.t.Fatal(err)
	}
}

func (x tree) blob(repo oci.Name, content string) oci.Digest {
	x.t.Helper()
	d := oci.SHA256.FromBytes([]byte(content))
	x.put(layout.BlobData(d), []byte(content))
	x.put(layout.LayerLink(repo, d), layout.Link(d))
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

func (x tree) manifest(repo oci.Name, tag oci.Tag, doc document) oci.Digest {
	x.t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		x.t.Fatal(err)
	}
	d := oci.SHA256.FromBytes(body)
	x.put(layout.BlobData(d), body)
	x.put(layout.RevisionLink(repo, d), layout.Link(d))
	if tag != "" {
		x.put(layout.TagIndex(repo, tag, d), layout.Link(d))
		x.put(layout.TagCurrent(repo, tag), layout.Link(d))
	}
	return d
}

// image is a manifest with a config and a layer of its own.
func (x tree) image(repo oci.Name, tag oci.Tag, seed string) (manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	blobs = []oci.Digest{x.blob(repo, "config "+seed), x.blob(repo, "layer "+seed)}
	return x.manifest(repo, tag, document{Config: &descriptor{Digest: blobs[0]}, Layers: []descriptor{{Digest: blobs[1]}}}), blobs
}

func (x tree) remove(path string) {
	x.t.Helper()
	if err := x.d.Remove(context.Background(), path); err != nil {
		x.t.Fatal(err)
	}
}

func (x tree) has(path string) bool {
	_, err := x.d.Stat(context.Background(), path)
	return err == nil
}

func (x tree) want(what string, path string, there bool) {
	x.t.Helper()
	if got := x.has(path); got != there {
		x.t.Errorf("%s: there = %v, want %v", what, got, there)
	}
}

// whole checks a manifest and what it needs.
func (x tree) whole(what string, repo oci.Name, manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	x.want(what+": revision", layout.RevisionLink(repo, manifest), true)
	x.want(what+": bytes", layout.BlobData(manifest), true)
	for _, b := range blobs {
		x.want(what+": blob link", layout.LayerLink(repo, b), true)
		x.want(what+": blob", layout.BlobData(b), true)
	}
}

func (x tree) gone(what string, repo oci.Name, manifest oci.Digest, blobs []oci.Digest) {
	x.t.Helper()
	x.want(what+": revision", layout.RevisionLink(repo, manifest), false)
	x.want(what+": bytes", layout.BlobData(manifest), false)
	for _, b := range blobs {
		x.want(what+": blob link", layout.LayerLink(repo, b), false)
		x.want(what+": blob", layout.BlobData(b), false)
	}
}

func (x tree) run(o Options) Report {
	x.t.Helper()
	o.Driver = x.d
	report, err := x.tryRun(o)
	if err != nil {
		x.t.Fatal(err)
	}
	for e, err := range x.d.List(context.Background(), layout.AsideRoot, "") {
		if err == nil {
			x.t.Errorf("%s is left aside", e.Name)
		}
	}
	return report
}

// tryRun runs; one that is careful cannot be alone, because another is.
func (x tree) tryRun(o Options) (Report, error) {
	x.t.Helper()
	o.Driver = x.d
	if x.careful {
		if _, release, err := x.d.Alone(context.Background()); err == nil {
			defer release()
		}
	}
	return Run(context.Background(), o)
}

func TestDeletedManifestIsFreed(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
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
	onDrivers(t, func(t *testing.T, x tree) {
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

func TestSharedBetweenRepositories(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
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
	onDrivers(t, func(t *testing.T, x tree) {
		for _, name := range []oci.Name{"FOO/bar", "Registry.example.org/team/app", "a.example.org/" + oci.Name(strings.Repeat("x/", 125)+"end"), "n-/a"} {
			manifest, blobs := x.image(name, "v1", string(name))
			x.run(Options{DeleteUntagged: true})
			x.whole(string(name), name, manifest, blobs)
		}
	})
}

func TestPromisesHoldWhereSomebodyServes(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		told, untold := x.blob("a", "told"), x.blob("a", "untold")
		x.age(layout.LayerLink("a", told), time.Minute)
		child, childBlobs := x.image("a", "", "child")
		x.age(layout.RevisionLink("a", child), time.Minute)
		leave, err := x.d.Serve(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		report := x.run(Options{Age: time.Hour, DeleteUntagged: true})
		x.want("promised blob", layout.BlobData(told), true)
		x.want("promised link", layout.LayerLink("a", told), true)
		x.want("old blob", layout.BlobData(untold), false)
		x.whole("promised manifest", "a", child, childBlobs)
		if report.Kept.Promised.Blobs != 1 {
			t.Errorf("kept = %+v", report.Kept)
		}
		leave()
		x.run(Options{Age: time.Hour, DeleteUntagged: true})
		x.want("blob when nobody serves", layout.BlobData(told), false)
		x.gone("manifest when nobody serves", "a", child, childBlobs)
		x.want("the repository", layout.Repository("a"), false)
	})
}

func TestUnreadableManifest(t *testing.T) {
	for name, spoil := range map[string]func(x tree, d oci.Digest){
		"missing":   func(x tree, d oci.Digest) { x.remove(layout.BlobData(d)) },
		"truncated": func(x tree, d oci.Digest) { x.put(layout.BlobData(d), []byte("{")) },
	} {
		t.Run(name, func(t *testing.T) {
			onDrivers(t, func(t *testing.T, x tree) {
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
				if report.Kept.Withheld.Blobs == 0 {
					t.Errorf("kept = %+v", report.Kept)
				}
			})
		})
	}
}

func TestDryRunTouchesNothing(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		old, oldBlobs := x.image("a", "", "old")
		report := x.run(Options{DryRun: true, DeleteUntagged: true})
		x.whole("after a dry run", "a", old, oldBlobs)
		real := x.run(Options{DeleteUntagged: true})
		report.DryRun, report.Duration, real.Duration, report.LayerLinks = false, 0, 0, real.LayerLinks
		if report.Blobs != real.Blobs || report.Bytes != real.Bytes || report.Manifests != real.Manifests {
			t.Errorf("a dry run says  %+v\nthe real one did %+v", report, real)
		}
	})
}

// A run that was killed leaves things aside; whatever is needed of them comes
// back, and the rest goes.
func TestAfterAKilledRun(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		kept, keptBlobs := x.image("a", "v1", "kept")
		child, childBlobs := x.image("a", "", "child")
		index := x.manifest("a", "multi", document{Manifests: []descriptor{{Digest: child}}})
		old, oldBlobs := x.image("a", "", "old")
		var paths []string
		for _, d := range slices.Concat(keptBlobs, childBlobs, oldBlobs) {
			paths = append(paths, layout.LayerLink("a", d), layout.BlobData(d))
		}
		paths = append(paths, layout.BlobData(kept), layout.BlobData(child), layout.RevisionLink("a", child),
			layout.RevisionLink("a", old), layout.BlobData(old))
		for _, path := range paths {
			if err := x.d.SetAside(t.Context(), path, layout.Aside(path)); err != nil {
				t.Fatal(err)
			}
		}
		report := x.run(Options{DeleteUntagged: true})
		x.whole("kept", "a", kept, keptBlobs)
		x.whole("child", "a", child, childBlobs)
		x.whole("index", "a", index, nil)
		x.gone("old", "a", old, oldBlobs)
		if report.Blobs.Freed != 3 || report.Restored == 0 {
			t.Errorf("report = %+v", report)
		}
	})
}

func TestUploadsAreLeft(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		x.put(layout.UploadStartedAt("a/b", "id"), layout.StartedAt(time.Now()))
		x.put(layout.UploadData("a/b", "id"), []byte("half"))
		x.run(Options{DeleteUntagged: true})
		x.want("upload", layout.UploadData("a/b", "id"), true)
	})
}

func TestTidying(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		x.image("a", "v1", "one")
		old, _ := x.image("b", "v1", "old")
		current, _ := x.image("b", "v1", "current")
		x.run(Options{DeleteUntagged: true})
		x.want("history of what is gone", layout.TagIndex("b", "v1", old), false)
		x.want("history of what is there", layout.TagIndex("b", "v1", current), true)
		x.remove(layout.TagCurrent("b", "v1"))
		x.remove(layout.TagIndex("b", "v1", current))
		x.remove(layout.RevisionLink("b", current))
		if err := x.d.Discard(t.Context(), layout.Tag("b", "v1")); err != nil {
			t.Fatal(err)
		}
		x.run(Options{DeleteUntagged: true})
		x.want("the other repository", layout.Repository("a"), true)
		x.want("a repository with nothing in it", layout.Repository("b"), false)
	})
}

func TestOtherAlgorithms(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		// As this registry writes it.
		own := oci.SHA512.FromBytes([]byte("own"))
		x.put(layout.BlobData(own), []byte("own"))
		x.put(layout.LayerLink("a", own), layout.Link(own))
		loose := oci.SHA512.FromBytes([]byte("loose"))
		x.put(layout.BlobData(loose), []byte("loose"))
		// As distribution does: an alias.
		target, alias := x.blob("a", "aliased"), oci.SHA512.FromBytes([]byte("aliased"))
		x.put(layout.LayerLink("a", alias), layout.Link(target))
		x.manifest("a", "v1", document{Layers: []descriptor{{Digest: own}, {Digest: alias}}})
		x.run(Options{})
		x.want("sha512", layout.BlobData(own), true)
		x.want("loose sha512", layout.BlobData(loose), false)
		x.want("what an alias leads to", layout.BlobData(target), true)
		x.want("alias", layout.LayerLink("a", alias), true)
	})
}

func TestOneAtATime(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		unlock, err := x.d.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if _, err := Run(t.Context(), Options{Driver: x.d}); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("got %v", err)
		}
		if _, err := Run(t.Context(), Options{Driver: x.d, DryRun: true}); err != nil {
			t.Errorf("a dry run is held up: %v", err)
		}
	})
}

func TestEmptyStorage(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		if report := x.run(Options{DeleteUntagged: true}); report.Blobs.Found != 0 {
			t.Errorf("report = %+v", report)
		}
	})
}

func TestEvents(t *testing.T) {
	x := tree{t: t, d: memory.New()}
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

// A server that comes while a run is alone need not wait for its end.
func TestServerComesInTheMiddle(t *testing.T) {
	onDrivers(t, func(t *testing.T, x tree) {
		kept, keptBlobs := x.image("a", "v1", "kept")
		for i := range 60 {
			x.image("b", "", fmt.Sprint("old ", i))
		}
		served := make(chan error)
		var inTheMiddle bool
		report := x.run(Options{DeleteUntagged: true, Tell: func(e Event) {
			switch {
			case e.Kind == OldManifest && served != nil && !inTheMiddle:
				inTheMiddle = true
				go func() {
					_, err := x.d.Serve(context.Background())
					served <- err
				}()
				time.Sleep(20 * time.Millisecond) // it waits now
			case e.Kind == OldBlob && !x.careful && served != nil:
				if err := <-served; err != nil {
					t.Error(err)
				}
				served = nil
			}
		}})
		if !x.careful && served != nil {
			t.Error("the server waits for the end of the run")
		}
		x.whole("kept", "a", kept, keptBlobs)
		if report.Blobs.Freed != 180 || report.Blobs.Kept != 3 {
			t.Errorf("report = %+v", report)
		}
		if served != nil {
			<-served
		}
	})
}
