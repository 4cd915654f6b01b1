package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage/hostile"
)

// A job runs on one of two replicas, and on the other one when the first has died or the
// interval is over.
func TestOneReplica(t *testing.T) {
	bucket := hostile.New(hostile.Options{Lease: 2 * time.Second})
	var replicas []*maintenance
	for range 2 {
		p := bucket.Process()
		t.Cleanup(func() { _ = p.Close() })
		replicas = append(replicas, &maintenance{log: zap.NewNop(), store: &backend{Store: p, coordinator: p, replicas: true}})
	}
	runs := 0
	count := func(context.Context) { runs++ }
	first, second := replicas[0].oneReplica("job", time.Hour, count), replicas[1].oneReplica("job", time.Hour, count)
	first(t.Context())
	second(t.Context())
	if runs != 1 {
		t.Errorf("%d runs in an interval, want 1", runs)
	}
	// The lock keeps the second out while the first runs, which does not end by itself.
	other := replicas[1].oneReplica("long", 0, count)
	replicas[0].oneReplica("long", 0, func(context.Context) {
		other(t.Context())
		if runs != 1 {
			t.Errorf("the second runs beside the first")
		}
	})(t.Context())
	other(t.Context())
	if runs != 2 {
		t.Errorf("%d runs, want 2: the interval is over", runs)
	}
	alone := &maintenance{store: &backend{}}
	alone.oneReplica("job", time.Hour, count)(t.Context())
	if runs != 3 {
		t.Errorf("%d runs, want 3: there are no replicas", runs)
	}
	died := replicas[1].oneReplica("died", time.Hour, count)
	replicas[0].oneReplica("died", time.Hour, func(context.Context) {
		bucketProcess(t, replicas[0]).Kill()
	})(t.Context())
	for begun := time.Now(); runs == 3; time.Sleep(10 * time.Millisecond) {
		if died(t.Context()); time.Since(begun) > time.Minute {
			t.Fatal("nobody takes over from a replica that has died")
		}
	}
}

func bucketProcess(t *testing.T, m *maintenance) *hostile.Process {
	t.Helper()
	p, ok := m.store.Store.(*hostile.Process)
	if !ok {
		t.Fatal("another store")
	}
	return p
}
