package maintenance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/replication"
	"slipway/registry/internal/storage/memory"
)

// The board and the metrics show that a target fails, a push doesn't shorten its backoff, nor wait for what has failed, and a person
// can start it.
func TestReplicate(t *testing.T) {
	var requests, others atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/manifests/other") {
			others.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			requests.Add(1)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer target.Close()
	at, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	copies := &replication.Replicator{Store: store, Log: zap.NewNop(), Targets: []*replication.Target{{
		Name: "backup", URL: at, Login: func(context.Context) (string, string, error) { return "", "", nil }, Repositories: pattern.MustNames([]string{"**"}), OnPush: true,
		Woken: make(chan struct{}, 1),
	}}}
	rules := registry.New(registry.Options{Store: store, Changed: copies.Changed})
	copies.Registry = rules
	cfg := config.Default()
	cfg.Storage.Maintenance.UploadPurging.Enabled = false
	o := newOptions(t, &cfg, store)
	o.Replication, o.Board, o.Metrics = copies, &schedule.Board{}, prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	Start(ctx, &group, o)
	const name = schedule.Replicate + " backup"
	job := func() schedule.Job {
		for _, j := range o.Board.Jobs() {
			if j.Name == name {
				return j
			}
		}
		t.Fatal("the job is not on the board")
		return schedule.Job{}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s: %+v", what, job())
			}
		}
	}
	registrytest.PushImage(t, rules.Repository("app"), "v1", "1", "layer")
	until("the failure is shown", func() bool {
		j := job()
		return strings.Contains(j.Limits, "waiting, behind since") && strings.Contains(j.Limits, "429")
	})
	until("the metrics show it", func() bool {
		n, err := testutil.GatherAndCount(o.Metrics, "registry_replication_failed")
		return err == nil && n == 1
	})
	before := requests.Load()
	for range 15 { // in 1.5 s, less than the shortest backoff
		registrytest.PushImage(t, rules.Repository("app"), "v1", "1", "layer")
		time.Sleep(100 * time.Millisecond)
	}
	if turns := requests.Load() - before; turns > 1 {
		t.Errorf("pushes shortened the backoff: %d turns", turns)
	}
	for try := 1; ; try++ {
		before := requests.Load()
		until("a turn without a push", func() bool { return requests.Load() > before })
		before = requests.Load()
		others.Store(0)
		registrytest.PushImage(t, rules.Repository("app"), "other", "1", "layer")
		until("a push is copied", func() bool { return others.Load() > 0 })
		if requests.Load() == before {
			break
		} else if try == 3 {
			t.Fatal("a push waits for what has failed")
		}
	}
	before = requests.Load()
	if err := o.Board.Ask(name, "alice"); err != nil {
		t.Fatal(err)
	}
	until("a person can start it", func() bool { return requests.Load() > before })
}
