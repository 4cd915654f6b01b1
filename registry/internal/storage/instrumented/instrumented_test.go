package instrumented

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/shared/tracing"
)

// Every operation is timed and logged under a name of its own.
func TestEveryOperationIsRecorded(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	registerer := prometheus.NewRegistry()
	s := New(memory.New(), "inmemory", zap.New(core), func() {}, registerer)
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

// An answer such as that nothing is there is no fault.
func TestFaultsAndSlowOperationsAreWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		store   faulty
		want    string
		counted float64
	}{
		"fault":       {faulty{err: storage.ErrNoSpace}, "storage operation failed", 1},
		"slow":        {faulty{wait: slow}, "slow storage operation", 0},
		"not slow":    {faulty{wait: slow - 1}, "", 0},
		"not there":   {faulty{err: storage.ErrNotExist}, "", 0},
		"conflict":    {faulty{err: storage.ErrConflict}, "", 0},
		"client gone": {faulty{err: context.Canceled}, "", 0},
		"taken":       {faulty{err: storage.ErrUploadTaken}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				c.store.Store = memory.New()
				noted := 0.0
				s := New(&c.store, "inmemory", zap.New(core), func() { noted++ }, prometheus.NewRegistry())
				_, _ = s.Stat(t.Context(), "/x")
				var got []string
				for _, line := range logs.All() {
					got = append(got, line.Message)
				}
				if counted := testutil.ToFloat64(s.failed[stat]); strings.Join(got, ",") != c.want || counted != c.counted || noted != c.counted {
					t.Errorf("logged %q, counted %v and noted %v, want %q and %v", got, counted, noted, c.want, c.counted)
				}
			})
		})
	}
}

// What a request asks of the store is below its span. That something isn't there is no fault.
func TestTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	defer tracing.Use(sdk.NewTracerProvider(sdk.WithSyncer(spans)))()
	s := New(memory.New(), "inmemory", zap.NewNop(), func() {}, nil)
	_, _ = s.Stat(t.Context(), "/alone")
	ctx, request := tracing.Root(t.Context(), "GET")
	_, _ = s.Stat(ctx, "/a")
	all := spans.GetSpans()
	if len(all) != 1 || all[0].Name != "Stat" || all[0].Parent.SpanID() != request.SpanContext().SpanID() || all[0].Status.Code != codes.Unset {
		t.Fatalf("%v", all)
	}
	if got := all[0].Attributes; len(got) != 2 || got[0].Value.AsString() != "inmemory" || got[1].Value.AsString() != "/a" {
		t.Errorf("%v", got)
	}
}
