package quota

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// watchedStore calls listed before it lists a prefix.
type watchedStore struct {
	*memory.Memory
	listed func(ctx context.Context, prefix string) error
}

func (w *watchedStore) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if err := w.listed(ctx, prefix); err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return w.Memory.List(ctx, prefix, o)
}

func (r *replica) account(t testing.TB) account {
	t.Helper()
	c := r.quotas.list[0]
	check(t, c.doc.Refresh(t.Context()))
	known, _ := c.doc.Last()
	return *known
}

// What another repository of the prefix has needs no room, even if there is none.
func TestQuota_FullTakesWhatIsThere(t *testing.T) {
	m := memory.New()
	r := newReplica(t, m, Quota{"team", 1000})
	base := content(1, 600)
	check(t, r.push(t, "team/a", base))
	for i := range 3 {
		name := oci.Name(fmt.Sprint("team/b", i))
		check(t, r.push(t, name, base))
		_, err := r.Repository(name+"/c").MountBlob(t.Context(), sum(base), name, nil)
		check(t, err)
		wantDenied(t, r.push(t, name, content(2, 401)))
	}
	check(t, r.push(t, "team/a", content(3, 400)))
	other := newReplica(t, m, Quota{"team", 1000})
	check(t, other.push(t, "team/d", base))
	wantDenied(t, other.push(t, "team/d", content(4, 10)))
	check(t, r.quotas.list[0].count(t.Context(), r.quotas.list[0].counts.Load()))
	if a := r.account(t); a.Bytes != 1000 {
		t.Errorf("%+v", a)
	}
}

// A push that has no room, whatever was counted twice, is refused without a walk over the
// tree.
func TestQuota_RefusesWithoutACount(t *testing.T) {
	r := newReplica(t, memory.New(), Quota{"team", 1000})
	check(t, r.push(t, "team/a", content(1, 600)))
	wantDenied(t, r.push(t, "team/a", content(2, 500)))
	r.quotas.list[0].pause = time.Hour // nothing is deleted
	before := r.quotas.list[0].counts.Load()
	for i := range 10 {
		check(t, r.push(t, "team/a", content(100+i, 10)))
		wantDenied(t, r.push(t, "team/a", content(2, 500)))
	}
	if n := r.quotas.list[0].counts.Load() - before; n != 0 {
		t.Errorf("%d counts", n)
	}
}

// What an inner quota refuses is not charged to the outer one.
func TestQuota_RefusalChargesNoOther(t *testing.T) {
	r := newReplica(t, memory.New(), Quota{"team", 1000}, Quota{"team/a", 100})
	r.quotas.Count(t.Context())
	for range 20 {
		wantDenied(t, r.push(t, "team/a", content(1, 200)))
	}
	if a := r.account(t); a.Bytes != 0 || a.Charged != 0 {
		t.Errorf("the outer quota: %+v", a)
	}
}

// A blob that the last count has found is linked elsewhere while another replica counts,
// which has passed that place already, and its first link is deleted before the count
// comes there.
func TestQuota_CountSeesWhatMoves(t *testing.T) {
	m := memory.New()
	r := newReplica(t, m, Quota{"team", 1000})
	blob := content(1, 600)
	check(t, r.push(t, "team/z", blob))
	check(t, r.push(t, "team/a", content(2, 10)))
	r.quotas.Count(t.Context())
	check(t, r.quotas.list[0].count(t.Context(), r.quotas.list[0].counts.Load()))

	passed, moved := false, false
	w := &watchedStore{m, func(_ context.Context, prefix string) error {
		switch {
		case prefix == layout.Layers("team/a", oci.SHA256):
			passed = true
		case prefix == layout.Layers("team/z", oci.SHA256) && passed && !moved:
			moved = true
			_, err := r.Repository("team/a").MountBlob(t.Context(), sum(blob), "team/z", nil)
			return errors.Join(err, r.Repository("team/z").DeleteBlob(t.Context(), sum(blob)))
		}
		return nil
	}}
	other := newReplica(t, w, Quota{"team", 1000})
	other.quotas.Count(t.Context())
	if a := other.account(t); !moved || a.Bytes < 610 {
		t.Errorf("610 bytes are there: %+v, moved: %v", a, moved)
	}
	wantDenied(t, r.push(t, "team/b", content(3, 400)))
	wantDenied(t, other.push(t, "team/b", content(3, 400)))
}

// Those who wait for a count can give up, and Close ends it.
func TestQuota_CountEnds(t *testing.T) {
	began := make(chan struct{}, 1)
	w := &watchedStore{memory.New(), func(ctx context.Context, prefix string) error {
		if !strings.HasPrefix(prefix, layout.Repositories) {
			return nil
		}
		select {
		case began <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	r := newReplica(t, w, Quota{"team", 1000})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.quotas.Count(ctx)
		close(ended)
	}()
	<-began
	cancel()
	<-ended
	pushed := make(chan error, 1)
	go func() { pushed <- r.push(t, "team/a", "x") }()
	r.quotas.Close()
	if err := <-pushed; err == nil {
		t.Error("a push that could not be counted")
	}
	if a := r.account(t); len(a.Counts) != 0 {
		t.Errorf("a count is left behind: %+v", a)
	}
}
