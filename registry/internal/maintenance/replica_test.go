package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/proxy"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// A job runs on one of two replicas, and on the other one when the interval
// is over.
func TestOneReplica(t *testing.T) {
	store := memory.New()
	var replicas []*jobs
	for range 2 {
		replicas = append(replicas, &jobs{Options: Options{Log: zap.NewNop(), Store: store, Replicas: true}})
	}
	runs := 0
	count := func(context.Context) { runs++ }
	first, second := replicas[0].oneReplica("job", time.Hour, count), replicas[1].oneReplica("job", time.Hour, count)
	_ = first(t.Context())
	_ = second(t.Context())
	if runs != 1 {
		t.Errorf("%d runs in an interval, want 1", runs)
	}
	// The lock keeps the second out while the first runs, which does not end by itself.
	other := replicas[1].oneReplica("long", 0, count)
	_ = replicas[0].oneReplica("long", 0, func(context.Context) {
		if err := other(t.Context()); runs != 1 || !errors.Is(err, storage.ErrBusy) {
			t.Errorf("the second runs beside the first: %v", err)
		}
	})(t.Context())
	_ = other(t.Context())
	if runs != 2 {
		t.Errorf("%d runs, want 2: the interval is over", runs)
	}
	alone := &jobs{}
	_ = alone.oneReplica("job", time.Hour, count)(t.Context())
	if runs != 3 {
		t.Errorf("%d runs, want 3: there are no replicas", runs)
	}
}

// newOptions returns options with a cache whose upstream doesn't answer.
func newOptions(t *testing.T, cfg *config.Config, store storage.Store) Options {
	t.Helper()
	reg := registry.New(registry.Options{Store: store, Log: zap.NewNop()})
	source := &proxy.Source{Name: "hub", TTL: time.Hour, Client: upstream.New(upstream.Options{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}})}
	cache := proxy.New(proxy.Options{Registry: reg, Sources: []*proxy.Source{source}, Log: zap.NewNop()})
	t.Cleanup(cache.Close)
	return Options{Config: cfg, Store: store, Cache: cache, Registry: reg, Pulls: lastpull.NewFile(store), Log: zap.NewNop()}
}

// askedLocks counts the attempts to lock.
type askedLocks struct {
	storage.Store
	mu    sync.Mutex
	asked map[string]int
}

func (a *askedLocks) Lock(ctx context.Context, name string, shared bool) (unlock func(), err error) {
	unlock, err = a.Store.Lock(ctx, name, shared)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[name]++
	return unlock, err
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

// Each schedule stands still on a replica while another one has its lock, and runs there once
// that one has given it back.
func TestSchedules_AreTakenOver(t *testing.T) {
	names := []string{"purge", "retention", "gc", "verify", "evict", "mirror-sync"}
	store := memory.New()
	var held []func()
	for _, name := range names {
		unlock, err := store.Lock(t.Context(), "schedule-"+name, false)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, unlock)
	}
	cfg := config.Default()
	work := &cfg.Storage.Maintenance
	work.UploadPurging.Interval, work.GC.Interval, work.Retention.Interval, work.Verify.Interval = time.Second, time.Second, time.Second, time.Second
	work.GC.Enabled, work.Retention.Enabled, work.Verify.Enabled, work.Retention.Rules = true, true, true, nil
	cfg.Proxy.Sync.Interval, cfg.Proxy.Sync.Images = time.Second, nil
	locks := &askedLocks{Store: store, asked: map[string]int{}}
	o := newOptions(t, &cfg, locks)
	o.Replicas = true
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	Start(ctx, &group, o)
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited a minute for %s: %v", what, locks.asked)
			}
		}
	}
	ran := func(name string) bool {
		_, err := store.Stat(t.Context(), layout.Own+"/schedule/"+name)
		return err == nil
	}
	wait("attempts at all schedules", func() bool { return locks.all(names) })
	for _, name := range names {
		if ran(name) {
			t.Errorf("%s runs while another replica has its lock", name)
		}
	}
	for _, unlock := range held {
		unlock()
	}
	for _, name := range names {
		wait(name+" to be taken over", func() bool { return ran(name) })
	}
}

// A collection and a verification run when somebody asks for them, though no schedule is on; the
// audit log names who asked. Where another replica does the same, the board says so.
func TestStart_WhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default()
		work := &cfg.Storage.Maintenance
		work.GC.Enabled, work.Verify.Enabled, work.Retention.Enabled, work.UploadPurging.Enabled = false, false, false, false
		work.Retention.Rules = []config.RetentionRule{{Repositories: []string{"**"}, Action: "delete", Newest: 1}}
		lines := make(lineSink, 10)
		o := newOptions(t, &cfg, memory.New())
		o.Cache = nil
		o.Audit, o.Board, o.Replicas = audit.New(zap.NewNop(), lines), &schedule.Board{}, true
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		Start(ctx, &group, o)
		time.Sleep(48 * time.Hour)
		jobs := o.Board.Jobs()
		if len(jobs) != 3 || !jobs[0].Ended.IsZero() || !jobs[1].Ended.IsZero() || !jobs[2].Ended.IsZero() {
			t.Errorf("without a schedule: %+v", jobs)
		}
		unlock, err := o.Store.Lock(ctx, "schedule-gc", false)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(name string) schedule.Job {
			t.Helper()
			if err := o.Board.Ask(name, "alice"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			for _, j := range o.Board.Jobs() {
				if j.Name == name {
					return j
				}
			}
			return schedule.Job{}
		}
		if j := ask(schedule.GarbageCollect); j.Asked || !strings.HasPrefix(j.Did, "did not start: ") || j.Failed {
			t.Errorf("while another replica collects: %+v", j)
		}
		unlock()
		for range 2 { // a person need not wait for the interval
			for name, did := range map[string]string{schedule.GarbageCollect: "0 manifests and 0 blobs freed, 0 problems", schedule.Verify: "0 blobs read, 0 findings open", schedule.RetentionApply: "0 tags deleted"} {
				if j := ask(name); j.Asked || j.Did != did || time.Since(j.Ended) > time.Minute || !j.Next.IsZero() {
					t.Errorf("%s: %+v", name, j)
				}
			}
		}
		cancel()
		group.Wait()
		if err := o.Audit.Close(); err != nil {
			t.Error(err)
		}
		close(lines)
		got := map[string]int{}
		for line := range lines {
			var r audit.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Error(err)
			}
			got[r.Who+" "+r.Reference+" "+r.Result]++
		}
		if want := map[string]int{"alice garbage-collect succeeded": 2, "alice retention apply succeeded": 2}; !maps.Equal(got, want) {
			t.Errorf("in the audit log: %v", got)
		}
	})
}
