package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/collect"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

// pull pulls an image through the cache, with its layers.
func (w *world) pull(name string, tag string, layers ...[]byte) {
	w.t.Helper()
	if resp, body := w.get("/v2/" + name + "/manifests/" + tag); resp.StatusCode != 200 {
		w.t.Fatalf("%s: %s %s", name, resp.Status, body)
	}
	for _, layer := range layers {
		if resp, _ := w.get("/v2/" + name + "/blobs/" + string(oci.SHA256.FromBytes(layer))); resp.StatusCode != 200 {
			w.t.Fatalf("%s: %s", name, resp.Status)
		}
	}
	w.settle()
}

func (w *world) evict(max int64) Eviction {
	w.t.Helper()
	done, err := w.cache.Evict(w.t.Context(), EvictOptions{Store: w.store, Registry: w.reg, Pulls: pulls.NewFile(w.store), MaxSize: max, Recent: time.Minute})
	check(w.t, err)
	_, err = collect.Run(w.t.Context(), collect.Options{Store: w.store, Coordinator: coordinator(w.store)})
	check(w.t, err)
	return done
}

// has says whether the store has the bytes.
func (w *world) has(content []byte) bool {
	return w.reg.Repository("x").HasBytes(w.t.Context(), oci.SHA256.FromBytes(content))
}

// used records when a tag's image was last pulled.
func (w *world) used(name oci.Name, tag oci.Tag, at time.Time) {
	w.t.Helper()
	m, err := w.reg.Cached(name).Manifest(w.t.Context(), oci.Reference{Tag: tag})
	check(w.t, err)
	var times pulls.Times
	times.Set(name, m.Digest, at)
	check(w.t, pulls.NewFile(w.store).Add(w.t.Context(), times))
}

// Above the limit, what was not used for the longest time goes: but no bytes that other
// images or repositories need.
func TestEvict_LeastRecentlyUsed(t *testing.T) {
	w := newWorld(t)
	layers := map[string][]byte{}
	shared, ours := noise(50, 100_000), noise(51, 100_000)
	for i := range 5 {
		name := fmt.Sprintf("app%d", i)
		layers[name] = noise(60+i, 100_000)
		w.push(oci.Name(name), "v1", shared, layers[name], ours)
		w.pull("hub/"+name, "v1", shared, layers[name], ours)
	}
	pushTo(t, w.reg.Repository("team/app"), "v1", ours, layers["app1"])
	w.clock.move(10 * time.Hour)
	for i := range 5 { // app3 was used last, then app4, app0 …
		w.used(oci.Name(fmt.Sprintf("hub/app%d", i)), "v1", w.clock.now().Add(time.Duration((i+1)%5-6)*time.Hour))
	}
	// 5 layers, of which one is local too, and the shared one: 500 kB.
	if done := w.evict(0); done.Evicted != 0 || done.Held < 500_000 || done.Held > 510_000 {
		t.Errorf("without a limit: %+v", done)
	}
	done := w.evict(350_000)
	if done.Evicted != 2 || done.Held > 315_000 || done.Freed < 200_000 {
		t.Errorf("%+v", done)
	}
	for name, want := range map[string]bool{"app4": false, "app0": false, "app1": true, "app2": true, "app3": true} {
		if w.has(layers[name]) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if !w.has(shared) || !w.has(ours) {
		t.Error("shared bytes are gone")
	}
	if resp, _ := w.get("/v2/team/app/blobs/" + string(oci.SHA256.FromBytes(layers["app1"]))); resp.StatusCode != 200 {
		t.Errorf("of a local repository: %s", resp.Status)
	}
	// What has left comes again.
	w.pull("hub/app4", "v1", shared, layers["app4"])
	if !w.has(layers["app4"]) {
		t.Error("app4 did not come again")
	}
}

// What was used a moment ago stays, whatever the limit is: it may be on its way.
func TestEvict_KeepsWhatIsInUse(t *testing.T) {
	w := newWorld(t)
	layer := noise(70, 100_000)
	w.push("app", "v1", layer)
	w.pull("hub/app", "v1", layer)
	done, err := w.cache.Evict(t.Context(), EvictOptions{Store: w.store, Registry: w.reg, Pulls: pulls.NewFile(w.store), MaxSize: 1, Recent: time.Hour})
	if !errors.Is(err, errOverLimit) || done.Evicted != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// Blobs that were pulled without a manifest are found: nobody would free them otherwise.
func TestEvict_FindsLooseBlobs(t *testing.T) {
	w := newWorld(t)
	layer := noise(71, 10_000)
	w.push("app", "v1", layer)
	w.get(blobPath(layer))
	w.settle()
	census := func() int {
		t.Helper()
		done, err := w.cache.Evict(t.Context(), EvictOptions{Store: w.store, Registry: w.reg, Pulls: pulls.NewFile(w.store), Recent: time.Hour})
		check(t, err)
		return done.Loose
	}
	if n := census(); n != 1 {
		t.Errorf("%d without a manifest", n)
	}
	w.pull("hub/app", "v1", layer)
	if n := census(); n != 0 {
		t.Errorf("%d with a manifest", n)
	}
}

// The time in the cache counts from the last use, and local repositories have none.
func TestEvict_Expired(t *testing.T) {
	w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.TTL = 24 * time.Hour })
	old, young, ours := noise(80, 10_000), noise(81, 10_000), noise(82, 10_000)
	w.push("old", "v1", old)
	w.push("young", "v1", young)
	w.pull("hub/old", "v1", old)
	w.pull("hub/young", "v1", young)
	pushTo(t, w.reg.Repository("team/app"), "v1", ours)
	w.clock.move(30 * time.Hour)
	w.used("hub/young", "v1", w.clock.now().Add(-23*time.Hour))
	if done := w.evict(0); done.Evicted != 1 {
		t.Errorf("%+v", done)
	}
	if w.has(old) || !w.has(young) || !w.has(ours) {
		t.Errorf("old %v, young %v, ours %v", w.has(old), w.has(young), w.has(ours))
	}
	if _, body := w.get("/v2/hub/old/tags/list"); !strings.Contains(string(body), "v1") { // upstream's
		t.Errorf("%s", body)
	}
	if tags, _, err := w.reg.Cached("hub/old").Tags(t.Context(), -1, ""); err == nil && len(tags) > 0 {
		t.Errorf("tags %v are left", tags)
	}
}

// Without the record of pulls, the tree says when something came.
func TestEvict_WithoutRecords(t *testing.T) {
	w := newWorld(t, func(_ *Options, s *Source, _ *registry.Options, _ *upstream.Options) { s.TTL = time.Hour })
	layer := noise(90, 10_000)
	w.push("app", "v1", layer)
	w.pull("hub/app", "v1", layer)
	w.clock.move(59 * time.Minute)
	if done := w.evict(0); done.Evicted != 0 {
		t.Errorf("%+v", done)
	}
	w.clock.move(2 * time.Minute)
	if done := w.evict(0); done.Evicted != 1 || w.has(layer) {
		t.Errorf("%+v, the layer is there: %v", done, w.has(layer))
	}
}

func TestEvictionDue(t *testing.T) {
	w := newWorld(t)
	layer := noise(91, 10_000)
	w.push("app", "v1", layer)
	if !w.cache.EvictionDue(0) {
		t.Error("not due at the start")
	}
	w.evict(0)
	if w.cache.EvictionDue(5_000) {
		t.Error("due though nothing came")
	}
	w.pull("hub/app", "v1", layer)
	if !w.cache.EvictionDue(5_000) || w.cache.EvictionDue(0) {
		t.Error("not due though too much came, or due without a limit")
	}
	w.clock.move(2 * time.Hour)
	if !w.cache.EvictionDue(0) {
		t.Error("not due after a long time")
	}
}

func TestSync(t *testing.T) {
	w := newWorld(t)
	layers := [][]byte{noise(100, 10_000), noise(101, 20_000), noise(102, 30_000)}
	amd := w.push("app", "amd", layers[0], layers[1])
	arm := w.push("app", "arm", layers[0], layers[2])
	entry := func(m *registry.Manifest, arch string) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`, m.MediaType, m.Digest, m.Size, arch)
	}
	index := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[` + entry(amd, "amd64") + "," + entry(arm, "arm64") + `]}`)
	_, err := w.origin.Repository("app").PutManifest(t.Context(), oci.Reference{Tag: "1.0"}, "", index, nil)
	check(t, err)
	image := Image{Repository: "hub/app", Tags: mustTags(t, `\d.*`), Platforms: []string{"linux/arm64"}}
	var told []Progress
	report, err := w.cache.Sync(t.Context(), w.reg, []Image{image}, func(p Progress) { told = append(told, p) })
	check(t, err)
	if report.Images != 1 || report.Blobs != 3 || !w.has(layers[2]) || w.has(layers[1]) || len(told) != 4 {
		t.Errorf("%+v after %v", report, told)
	}
	// Now the upstream is not needed any more.
	w.front.fail(down)
	w.pull("hub/app", string(arm.Digest), layers[0], layers[2])
	w.front.fail(nil)
	if report, err = w.cache.Sync(t.Context(), w.reg, []Image{image}, nil); err != nil || report.Blobs != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
	for _, wrong := range []Image{{Repository: "team/app"}, {Repository: "hub/app"}, {Repository: "hub/app", Tags: mustTags(t, "z")}} {
		if report, err = w.cache.Sync(t.Context(), w.reg, []Image{wrong}, nil); err == nil || report.Failed != 1 {
			t.Errorf("%s: %+v, %v", wrong.Repository, report, err)
		}
	}
}
