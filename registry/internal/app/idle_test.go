package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
	"slipway/shared/health"
)

// requests counts the requests to a store.
type requests struct {
	hookedtest.Store
	all, robots atomic.Int64
}

func newRequests() *requests {
	s := &requests{Store: hookedtest.Store{Store: memory.New()}}
	s.OnRead = func(_ context.Context, _ hookedtest.Op, key string) error {
		s.all.Add(1)
		if strings.HasPrefix(key, layout.Robots) {
			s.robots.Add(1)
		}
		return nil
	}
	s.OnApply = func(stages []storage.Stage) error {
		for _, stage := range stages {
			s.all.Add(int64(len(stage)))
		}
		return nil
	}
	return s
}

// An idle replica sends no requests for robots. It reads one at its login, and lists them after a change of the
// password file.
func TestIdleReplica_DoesNotAskForRobots(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_SERVICE", "builtin")
	text := accessText(t, "access: {rules: [{who: [alice, 'robot:ci'], repositories: ['**'], allow: [pull]}]}\n")
	cfg := loadText(t, strings.Replace(text, "auth: {", "auth: {service: {builtin: {}}, ", 1))
	synctest.Test(t, func(t *testing.T) {
		store := newRequests()
		secret, err := robot.New(store.Store.Store, zap.NewNop()).Create(t.Context(), robot.Robot{Name: "ci", CreatedBy: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		g, err := openAuth(t.Context(), cfg, &Backend{Store: store}, nil, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		for _, watch := range g.watchers {
			go watch(t.Context())
		}
		pull := func() {
			t.Helper()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.SetBasicAuth("robot+ci", secret)
			if _, err := g.authorizer.Authorize(r, auth.Access{Action: auth.Pull, Repository: "a"}); err != nil {
				t.Error(err)
			}
		}
		asked := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if n := store.robots.Swap(0); n != want {
				t.Errorf("%d requests for robots %s, want %d", n, when, want)
			}
		}
		asked(0, "at the start")
		time.Sleep(time.Minute)
		asked(3, "for their makers") // two lists, and the only robot
		for range 10 {
			pull()
		}
		asked(1, "for ten pulls")
		time.Sleep(time.Hour)
		asked(0, "in an hour without requests")
	})
}

// Three idle replicas send at most 100 requests an hour to a bucket: health checks, and the keys of tokens.
func TestIdleReplica_Requests(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_SERVICE", "builtin")
	text := accessText(t, "access: {rules: [{who: [alice], repositories: ['**'], allow: [pull]}]}\n")
	cfg := loadText(t, strings.Replace(text, "auth: {", "auth: {service: {builtin: {}}, ", 1))
	synctest.Test(t, func(t *testing.T) {
		store := newRequests()
		g, err := openAuth(t.Context(), cfg, &Backend{Store: store}, nil, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		for _, watch := range g.watchers {
			go watch(t.Context())
		}
		rules := registry.New(registry.Options{Store: store, Remote: true})
		defer health.Start(zap.NewNop(), healthChecks(cfg, true, newTrouble(), rules, nil)...).Close()
		time.Sleep(time.Hour) // the first checks come sooner
		store.all.Store(0)
		const hours = 4
		time.Sleep(hours * time.Hour)
		synctest.Wait()
		if n := store.all.Load(); n == 0 || n > hours*100/3 {
			t.Errorf("%d requests in %d hours, want at most %d", n, hours, hours*100/3)
		}
	})
}
