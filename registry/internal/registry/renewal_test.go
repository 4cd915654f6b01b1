package registry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostile"
)

// An old link in an object store costs one request more when it is confirmed to a client: the look at it
// is the condition under which it is written again.
func TestRenewal_ObjectStore_CostsOneRequest(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
	p := bucket.Process()
	t.Cleanup(func() { p.Close() })
	now := time.Now().Add(time.Second)
	repo := newRegistry(p, Options{Grace: time.Hour, RenewAfter: time.Minute, Now: func() time.Time { return now }}).Repository("a")
	pushImage(t, repo, "v1", "x")
	now = now.Add(2 * time.Minute)
	var mu sync.Mutex
	var sent []string
	bucket.SetFault(func(r hostile.Request) hostile.Fault {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(r.Key, "/_layers/") {
			sent = append(sent, r.Op)
		}
		return hostile.None
	})
	_, err := repo.StatBlob(t.Context(), sum("layer x"))
	check(t, err)
	if want := []string{"HEAD", "PUT"}; !slices.Equal(sent, want) {
		t.Errorf("%q were sent for the link, want %q", sent, want)
	}
}

// overtaken is a store in which somebody else writes a link, or deletes it, between the look at it and its
// renewal.
type overtaken struct {
	*hostile.Process
	by      storage.Change // made before the first renewal
	done    bool
	renewed []storage.Condition
}

func (s *overtaken) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	for _, c := range slices.Concat(stages...) {
		if !c.Renew {
			continue
		}
		s.renewed = append(s.renewed, c.If)
		if !s.done {
			s.done = true
			if err := s.Process.Apply(ctx, nil, storage.Stage{s.by}); err != nil {
				return err
			}
		}
	}
	return s.Process.Apply(ctx, section, stages...)
}

// A link that somebody else writes at the same time is renewed all the same; one that is deleted
// meanwhile is not confirmed.
func TestRenewal_OfALinkThatChanges(t *testing.T) {
	layer := sum("layer x")
	link := layout.LayerLink("a", layer)
	for name, tt := range map[string]struct {
		by       storage.Change
		renewals int
		there    bool
	}{
		"written": {storage.Change{Key: link, Content: layout.Link(layer)}, 2, true},
		"deleted": {storage.Change{Key: link, Delete: true}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.New(hostile.Options{}).Process()
			t.Cleanup(func() { p.Close() })
			store := &overtaken{Process: p, by: tt.by}
			now := time.Now().Add(time.Second)
			repo := New(Options{
				Store: store, Coordinator: store, Remote: true, Grace: time.Hour, RenewAfter: time.Minute,
				Now: func() time.Time { return now },
			}).Repository("a")
			pushImage(t, repo, "v1", "x")
			now = now.Add(2 * time.Minute)
			_, err := repo.StatBlob(t.Context(), layer)
			if (err == nil) != tt.there {
				t.Errorf("StatBlob: %v, want it there: %v", err, tt.there)
			}
			if len(store.renewed) != tt.renewals || store.renewed[0].Version() == "" {
				t.Errorf("it was renewed under the conditions %+v, want %d, the first with a version", store.renewed, tt.renewals)
			}
			if _, err := store.Stat(t.Context(), link); (err == nil) != tt.there {
				t.Errorf("the link: %v, want it there: %v", err, tt.there)
			}
		})
	}
}
