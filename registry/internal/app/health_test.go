package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/shared/health"
)

// An upstream is asked at the start: nobody has to pull first to learn that its login is wrong.
func TestHealth_UpstreamIsAskedAtTheStart(t *testing.T) {
	asked := make(chan struct{}, 10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer upstream.Close()
	cfg := config.Default()
	cfg.Proxy.Upstreams = []config.ProxyUpstream{{Prefix: "hub", RemoteURL: upstream.URL}}
	cache, err := CacheNames(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	checks := upstreamChecks(cache)
	for i := range checks {
		checks[i].Interval = time.Hour
	}
	monitor := health.Start(zap.NewNop(), checks...)
	defer monitor.Close()
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Error("the upstream was not asked")
	}
}

// A cache serves what it holds while its upstream is away, so the registry stays healthy.
func TestHealth_UpstreamAway_StaysHealthy(t *testing.T) {
	cfg := config.Default()
	cfg.Proxy.Upstreams = []config.ProxyUpstream{{Prefix: "hub", RemoteURL: "http://127.0.0.1:1"}}
	cache, err := CacheNames(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	checks := upstreamChecks(cache)
	for i := range checks {
		checks[i].Interval = time.Millisecond
	}
	monitor := health.Start(zap.NewNop(), checks...)
	defer monitor.Close()
	for deadline := time.Now().Add(30 * time.Second); !monitor.Failing("upstream_hub") && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	w := httptest.NewRecorder()
	monitor.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusOK || !monitor.Ready() {
		t.Errorf("ready %v, %d", monitor.Ready(), w.Code)
	}
	if body := w.Body.String(); !strings.Contains(body, "upstream_hub") {
		t.Errorf("the page does not name the upstream: %s", body)
	}
}
