package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/collect"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
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
	done, err := w.cache.Evict(w.t.Context(), EvictOptions{Store: w.store, Pulls: lastpull.NewFile(w.store), MaxSize: max, Recent: time.Minute})
	check(w.t, err)
	_, err = collect.Run(w.t.Context(), collect.Options{Store: w.store})
	check(w.t, err)
	return done
}

// has reports whether the store has the bytes.
func (w *world) has(content []byte) bool {
	return w.reg.Repository("x").HasBytes(w.t.Context(), oci.SHA256.FromBytes(content))
}

// used records when a tag's image was last pulled.
func (w *world) used(name oci.Name, tag oci.Tag, at time.Time) {
	w.t.Helper()
	m, err := w.reg.Cached(name).Manifest(w.t.Context(), oci.Reference{Tag: tag})
	check(w.t, err)
	var times lastpull.Times
	times.Set(name, m.Digest, at)
	check(w.t, lastpull.NewFile(w.store).Add(w.t.Context(), times))
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

// What is pulled while the storage is searched stays.
func TestEvict_PulledMeanwhile(t *testing.T) {
	w := newWorld(t)
	for _, name := range []oci.Name{"app0", "app1"} {
		layer := noise(60, 1000)
		w.push(name, "v1", layer)
		w.pull("hub/"+string(name), "v1", layer)
	}
	w.clock.move(10 * time.Hour)
	o := EvictOptions{Store: w.store, Pulls: lastpull.NewFile(w.store), MaxSize: 1, Recent: time.Hour}
	n := &census{cache: w.cache, o: o, users: map[oci.Digest]int{}, sizes: map[oci.Digest]int64{}, local: map[oci.Digest]bool{}, linked: map[oci.Digest]bool{}}
	check(t, n.take(t.Context()))
	w.used("hub/app0", "v1", w.clock.now())
	if done, err := n.evict(t.Context()); err != nil || done.Evicted != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := w.reg.Cached("hub/app0").Manifest(t.Context(), oci.Reference{Tag: "v1"}); err != nil {
		t.Errorf("the image that was pulled: %v", err)
	}
}

// An image that alone exceeds the limit leaves as soon as it is out of use, and empties the
// cache of nothing else.
func TestEvict_ImageLargerThanTheLimit(t *testing.T) {
	w := newWorld(t)
	small := [][]byte{noise(40, 100_000), noise(41, 100_000), noise(42, 100_000)}
	for i, layer := range small {
		w.push(oci.Name(fmt.Sprint("small", i)), "v1", layer)
		w.pull(fmt.Sprint("hub/small", i), "v1", layer)
		w.clock.move(time.Hour)
		w.used(oci.Name(fmt.Sprint("hub/small", i)), "v1", w.clock.now())
	}
	large := noise(43, 2_000_000)
	w.push("large", "v1", small[0], large)
	w.clock.move(2 * time.Hour)
	w.pull("hub/large", "v1", small[0], large)
	w.used("hub/large", "v1", w.clock.now())
	o := EvictOptions{Store: w.store, Pulls: lastpull.NewFile(w.store), MaxSize: 1_000_000, Recent: time.Hour}
	done, err := w.cache.Evict(t.Context(), o)
	if !errors.Is(err, errOverLimit) || done.Evicted != 0 {
		t.Errorf("while it is in use: %+v, %v", done, err)
	}
	if w.cache.EvictionDue(1, false) {
		t.Error("the search is repeated at once")
	}
	w.clock.move(2 * time.Hour)
	if done, err = w.cache.Evict(t.Context(), o); err != nil || done.Evicted != 1 {
		t.Errorf("afterwards: %+v, %v", done, err)
	}
	_, err = collect.Run(t.Context(), collect.Options{Store: w.store})
	check(t, err)
	for i, layer := range small {
		if !w.has(layer) {
			t.Errorf("the small image %d is gone", i)
		}
	}
	if w.has(large) {
		t.Error("the large image is still there")
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
		done, err := w.cache.Evict(t.Context(), EvictOptions{Store: w.store, Pulls: lastpull.NewFile(w.store), Recent: time.Hour})
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

// A cache holds nothing of an image that a local repository has as well.
func TestEvict_AlsoInALocalRepository(t *testing.T) {
	w := newWorld(t)
	layer := noise(72, 10_000)
	w.push("app", "v1", layer)
	w.pull("hub/app", "v1", layer)
	if done := w.evict(0); done.Held < 10_000 {
		t.Errorf("before: %+v", done)
	}
	pushTo(t, w.reg.Repository("app"), "v1", layer) // the same manifest
	if done := w.evict(0); done.Held != 0 {
		t.Errorf("afterwards: %+v", done)
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
	if !w.cache.EvictionDue(0, false) {
		t.Error("not due at the start")
	}
	w.evict(0)
	if w.cache.EvictionDue(5_000, false) {
		t.Error("due though nothing came")
	}
	w.pull("hub/app", "v1", layer)
	if !w.cache.EvictionDue(5_000, false) || w.cache.EvictionDue(0, false) {
		t.Error("not due though too much came, or due without a limit")
	}
	w.clock.move(2 * time.Hour)
	if !w.cache.EvictionDue(0, false) {
		t.Error("not due after a long time")
	}
}

// What cannot be read stays and is reported; the rest leaves, and the search is repeated soon.
func TestEvict_UnreadableRepository(t *testing.T) {
	var unreadable atomic.Value // the keys that hold it
	unreadable.Store("")
	broken := &hookedtest.Store{Store: memory.New(), OnRead: func(_ context.Context, op hookedtest.Op, key string) error {
		if what := unreadable.Load().(string); op != hookedtest.Stat && what != "" && strings.Contains(key+"/", what) {
			return errors.New("input/output error")
		}
		return nil
	}}
	w := newWorld(t, func(_ *Options, _ *Source, ro *registry.Options, _ *upstream.Options) { ro.Store = broken })
	one, two := noise(92, 10_000), noise(93, 10_000)
	w.push("one", "v1", one)
	w.push("two", "v1", two)
	w.pull("hub/one", "v1", one)
	w.pull("hub/two", "v1", two)
	w.evict(0)
	held := w.cache.size.held
	w.clock.move(200 * time.Hour)
	unreadable.Store("repositories/hub/one/")
	o := EvictOptions{Store: w.store, Pulls: lastpull.NewFile(w.store), Recent: time.Minute}
	done, err := w.cache.Evict(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "hub/one") || done.Evicted != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if w.cache.size.held != held || w.cache.EvictionDue(1, false) {
		t.Errorf("%d bytes are held, want %d, or the search is repeated at once", w.cache.size.held, held)
	}
	w.clock.move(evictRetry)
	if !w.cache.EvictionDue(0, false) {
		t.Error("the search is not repeated")
	}
	unreadable.Store("")
	if done, err = w.cache.Evict(t.Context(), o); err != nil || done.Evicted != 1 || done.Held != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	// Without the record of pulls nobody knows what is in use.
	w.pull("hub/one", "v1", one)
	w.clock.move(200 * time.Hour)
	unreadable.Store(layout.Pulls)
	if done, err = w.cache.Evict(t.Context(), o); err == nil || done.Evicted != 0 {
		t.Errorf("without the record of pulls: %+v, %v", done, err)
	}
}

// A replica that shares the caches searches before it has filled the room alone.
func TestEvictionDue_Shared(t *testing.T) {
	w := newWorld(t)
	w.evict(0)
	w.cache.count(260)
	if w.cache.EvictionDue(1000, false) || !w.cache.EvictionDue(1000, true) {
		t.Errorf("a quarter of the room was filled: alone %v, with others %v", w.cache.EvictionDue(1000, false), w.cache.EvictionDue(1000, true))
	}
}
