package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/pulls"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
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

// askedLocks counts the attempts to lock.
type askedLocks struct {
	storage.Coordinator
	mu    sync.Mutex
	asked map[string]int
}

func (a *askedLocks) Lock(ctx context.Context, name string) (storage.Lease, error) {
	lock, err := a.Coordinator.Lock(ctx, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[name]++
	return lock, err
}

func (a *askedLocks) all(names []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		if a.asked["schedule-"+name] == 0 {
			return false
		}
	}
	return true
}

// Each schedule stands still on a replica while another one has its lease, and runs there once
// that one has died.
func TestSchedules_AreTakenOver(t *testing.T) {
	names := []string{"purge", "retention", "gc", "verify", "evict", "mirror-sync"}
	bucket := hostile.New(hostile.Options{Lease: 3 * time.Second})
	holder, living := bucket.Process(), bucket.Process()
	defer living.Close()
	var held []storage.Lease
	for _, name := range names {
		lock, err := holder.Lock(t.Context(), "schedule-"+name)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lock)
	}
	cfg := config.Default()
	work := &cfg.Storage.Maintenance
	work.UploadPurging.Interval, work.GC.Interval, work.Retention.Interval, work.Verify.Interval = time.Second, time.Second, time.Second, time.Second
	work.GC.Enabled, work.Retention.Enabled, work.Verify.Enabled, work.Retention.Rules = true, true, true, nil
	cfg.Proxy.RemoteURL, cfg.Proxy.Interval, cfg.Proxy.Sync.Interval, cfg.Proxy.TTL = "http://127.0.0.1:1", time.Second, time.Second, time.Hour
	cfg.Proxy.Upstreams, cfg.Proxy.Sync.Images = nil, nil
	locks := &askedLocks{Coordinator: living, asked: map[string]int{}}
	b := &backend{Store: living, coordinator: locks, replicas: true}
	cache, err := openProxy(&cfg, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	m := &maintenance{cfg: &cfg, store: b, cache: cache, rules: registry.New(registryOptions(&cfg, b, cache, zap.NewNop())), pulls: pulls.NewFile(b), log: zap.NewNop()}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	m.start(ctx, &group)
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited a minute for %s: %v", what, locks.asked)
			}
		}
	}
	ran := func(name string) bool {
		_, err := living.Stat(t.Context(), layout.Own+"/schedule/"+name)
		return err == nil
	}
	wait("attempts at all schedules", func() bool { return locks.all(names) })
	for i, name := range names {
		select {
		case <-held[i].Lost(): // on a machine that stood still for seconds
		default:
			if ran(name) {
				t.Errorf("%s runs while another replica has its lease", name)
			}
		}
	}
	holder.Kill()
	for _, name := range names {
		wait(name+" to be taken over", func() bool { return ran(name) })
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
