package tags

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// Searches that come while a listing is under way share the next one, whichever of them hangs up,
// and each finds its own tag.
func TestRemotePointingAt_AtTheSameTime_ShareAListing(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	defer p.Close()
	x := New(view.New(p, true))
	tag := func(i int) oci.Tag { return oci.Tag(fmt.Sprint("v", i)) }
	var stage storage.Stage
	for i := range 9 {
		d := sum(fmt.Sprint(i))
		stage = append(stage, storage.Change{Key: layout.TagIndex("a", tag(i), d), Content: layout.Link(d)},
			storage.Change{Key: layout.TagCurrent("a", tag(i)), Content: layout.Link(d)})
	}
	check(t, p.Apply(t.Context(), nil, stage))
	lists, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	listings := 0
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		if r.Op == "LIST" && strings.HasSuffix(r.Key, "_manifests/tags/") {
			listings++
			first.Do(func() {
				close(lists)
				<-goOn
			})
		}
		return hostile.None
	})
	var all sync.WaitGroup
	find := func(i int) {
		all.Go(func() {
			found, err := x.PointingAt(t.Context(), "a", sum(fmt.Sprint(i)))
			if _, ok := found[tag(i)]; err != nil || !ok || len(found) != 1 {
				t.Errorf("search for %s: found %v, %v", tag(i), found, err)
			}
		})
	}
	await := func(waiting int) {
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			x.searching.Lock()
			s := x.searches["a"]
			ok := !s.begun && len(s.wanted) == waiting
			x.searching.Unlock()
			if ok {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d searches do not wait for one listing", waiting)
			}
		}
	}
	find(0)
	<-lists
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := x.PointingAt(ctx, "a", sum("1"))
		gone <- err
	}()
	await(1)
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who hung up got %v", err)
	}
	for i := 2; i < 9; i++ {
		find(i)
	}
	await(8)
	close(goOn)
	all.Wait()
	if listings != 2 {
		t.Errorf("%d listings, want 2", listings)
	}
}
