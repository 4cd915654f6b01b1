package instrumented

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/storage/storagetest"
)

func TestContract(t *testing.T) {
	storagetest.Run(t, func(*testing.T) (a, b storage.Store) {
		m := memory.New()
		return New(m, "inmemory", zap.NewNop(), nil), m
	})
}

// Every operation is timed and logged under a name of its own.
func TestEveryOperationIsRecorded(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	registerer := prometheus.NewRegistry()
	s := New(memory.New(), "inmemory", zap.New(core), registerer)
	ctx := t.Context()
	u, err := s.OpenUpload(ctx, "/u/1", storage.UploadOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(ctx, nil, storage.Stage{}, storage.Stage{{Key: "/a/f", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	for info, err := range s.List(ctx, "/a", storage.ListOptions{}) {
		if err != nil || info.Key != "/a/f" {
			t.Errorf("listed %v, %v", info, err)
		}
	}
	_, e1 := s.Stat(ctx, "/a/f")
	_, _, e2 := storage.Read(ctx, s, "/a/f", 10)
	_, e3 := s.OpenUpload(ctx, "/u/1", storage.UploadOptions{})
	_, e4 := s.Lock(ctx, "x", true)
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		t.Fatal(err)
	}
	if err := u.Suspend(ctx, 0, nil); !errors.Is(err, storage.ErrUploadTaken) {
		t.Errorf("Suspend: %v", err)
	}
	if _, err := s.Stat(ctx, "/a/f/g"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("Stat of nothing: %v", err)
	}
	seen := map[string]int{}
	for _, line := range logs.FilterMessage("storage operation").FilterLevelExact(zap.DebugLevel).All() {
		fields := line.ContextMap()
		if fields["path"] == "" {
			t.Errorf("no path: %v", fields)
		}
		seen[fields["action"].(string)]++
	}
	for _, action := range actions {
		want := 1
		if action == "Stat" || action == "Writer" {
			want = 2
		}
		if seen[action] != want {
			t.Errorf("%d lines about %s, want %d", seen[action], action, want)
		}
	}
	families, err := registerer.Gather()
	if err != nil || len(families) != 2 || families[1].GetName() != "registry_storage_action_seconds" || len(families[1].GetMetric()) != len(actions) {
		t.Errorf("families %v, error %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if families[0].GetName() != "registry_storage_action_errors_total" || m.GetCounter().GetValue() != 0 {
			t.Errorf("%v though nothing failed", families[0])
		}
	}
}

// Failures are counted; an answer such as that nothing is there is none.
func TestFailuresAreCounted(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want float64
	}{{storage.ErrUnavailable, 1}, {storage.ErrNotExist, 0}, {nil, 0}} {
		registerer := prometheus.NewRegistry()
		s := New(&faulty{Store: memory.New(), err: tt.err}, "inmemory", zap.NewNop(), registerer)
		_, _ = s.Stat(t.Context(), "/a/f")
		families, err := registerer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for _, m := range families[0].GetMetric() {
			got += m.GetCounter().GetValue()
		}
		if got != tt.want {
			t.Errorf("%v: %v failures are counted, want %v", tt.err, got, tt.want)
		}
	}
}

// faulty fails or takes its time.
type faulty struct {
	storage.Store
	err  error
	wait time.Duration
}

func (s *faulty) Stat(context.Context, string) (storage.Info, error) {
	time.Sleep(s.wait)
	return storage.Info{}, s.err
}

func TestFaultsAndSlowOperationsAreWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		store faulty
		want  string
	}{
		"fault":       {faulty{err: storage.ErrNoSpace}, "storage operation failed"},
		"slow":        {faulty{wait: slow}, "slow storage operation"},
		"not slow":    {faulty{wait: slow - 1}, ""},
		"not there":   {faulty{err: storage.ErrNotExist}, ""},
		"conflict":    {faulty{err: storage.ErrConflict}, ""},
		"client gone": {faulty{err: context.Canceled}, ""},
		"taken":       {faulty{err: storage.ErrUploadTaken}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				c.store.Store = memory.New()
				_, _ = New(&c.store, "inmemory", zap.New(core), nil).Stat(t.Context(), "/x")
				var got []string
				for _, line := range logs.All() {
					got = append(got, line.Message)
				}
				if strings.Join(got, ",") != c.want {
					t.Errorf("logged %q, want %q", got, c.want)
				}
			})
		})
	}
}
