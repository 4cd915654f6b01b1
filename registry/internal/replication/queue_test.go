package replication

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
)

// Marks are kept in the storage, once for each thing that changed, and one that is written again during a turn stays.
func TestMarks(t *testing.T) {
	p := newPair(t, func(t *Target) { t.Repositories = pattern.MustNames([]string{"team/**"}) })
	repo := p.Registry.Repository("team/app")
	for range 3 {
		registrytest.PushImage(t, repo, "v1", "1", "layer")
	}
	registrytest.PushImage(t, p.Registry.Repository("other"), "v1", "1", "layer")
	queued := func() []mark {
		t.Helper()
		list, err := p.queued(t.Context(), p.t)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if list := queued(); len(list) != 1 || list[0].name != "team/app" || list[0].tag != "v1" {
		t.Fatalf("%+v", list)
	}
	var once sync.Once
	again := func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() {
			p.Changed("team/app", "", []oci.Tag{"v1"})
		})
		return false
	}
	p.answer.Store(&again)
	if s, err := p.turn(t, false); err != nil || s.Waiting != 1 {
		t.Errorf("a mark that was written again: %+v, %v", s, err)
	}
	unlock, err := p.Store.Lock(t.Context(), "replicate-backup", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.turn(t, true); !errors.Is(err, storage.ErrBusy) {
		t.Errorf("two turns at the same time: %v", err)
	}
	unlock()
	p.mustTurn(t, false)
}

// Every name of a tag and a repository comes back from the storage.
func TestMarks_Names(t *testing.T) {
	p := newPair(t, nil)
	want := map[mark]bool{{name: "a"}: true, {name: "a/b-c", tag: "_v1.0_"}: true, {name: "a", tag: "1.0.tmp"}: true, {name: "a_b/c", tag: oci.Tag("sha512-" + strings.Repeat("0", 128))}: true}
	keys := []string{marks("backup") + "/a", marks("backup") + "/a/_v1", marks("backup") + "/_"}
	for m := range want {
		keys = append(keys, markKey("backup", m.name, m.tag))
	}
	if err := p.put(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	list, err := p.queued(t.Context(), p.t)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, m := range list {
		if !want[mark{name: m.name, tag: m.tag}] || !storage.ValidKey(m.key) || strings.HasSuffix(m.key, ".tmp") {
			t.Errorf("%+v", m)
		}
	}
}
