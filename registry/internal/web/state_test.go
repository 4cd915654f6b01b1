package web

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/shared/health"
)

// TestState: those who administer the registry see how it is, and nobody else does.
func TestState(t *testing.T) {
	metrics := prometheus.NewRegistry()
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "registry_proxy_hits_total", Help: "x"}, []string{"upstream", "type"})
	metrics.MustRegister(hits)
	hits.WithLabelValues("hub", "blob").Add(1200)
	hits.WithLabelValues("hub", "manifest").Add(34)
	checks := health.Start(zap.NewNop(), health.Check{Name: "storage", Func: func(context.Context) error { return nil }})
	t.Cleanup(checks.Close)
	file := filepath.Join(t.TempDir(), "audit.log")
	lines := `{"time":"2026-01-02T03:04:05Z","event":"push","who":"alice","repository":"web/app","reference":"<b>v1</b>","status":201}
not json
{"time":"2026-01-02T03:04:05Z","event":"push","who":"alice","repository":"web/app","reference":"2fa6e90d-2669-4ce0-9cf1-c5b9ee15968e","status":201}
{"time":"2026-01-02T03:04:05Z","event":"push","who":"alice","repository":"web/app","reference":"3fa6e90d-2669-4ce0-9cf1-c5b9ee15968e","status":201}
{"time":"2026-01-02T03:04:05Z","event":"push","who":"bob","repository":"web/app","reference":"4fa6e90d-2669-4ce0-9cf1-c5b9ee15968e","status":201}
{"time":"2026-01-02T03:04:06Z","event":"delete","who":"bob","repository":"web/db","status":403}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	events := queued(t) // as in a registry on a bucket
	s := newSite(t, func(c *setup) {
		c.pages.Metrics, c.pages.Health, c.pages.AuditFile, c.pages.Events = metrics, checks, file, events
	})
	for _, who := range []string{"", "bob", "alice", "lead"} {
		b := s.browser()
		if who != "" {
			b = s.as(who)
		}
		for _, path := range []string{"/ui/state", "/ui/audit"} {
			b.get(path)
			b.want(404, "-hub", "-web/db", "->State<", "->Audit<")
		}
	}
	b := s.as("owner")
	b.get("/ui/state")
	b.want(200, "0 uploads.", "Events that wait", "room")
	for _, content := range []string{"abc", "defgh"} {
		up, err := s.rules.Repository("web/app").StartUpload(t.Context(), oci.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		defer up.Close()
		if _, err := up.Append(t.Context(), strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/ui/state")
	b.want(200, "2 uploads with 8 B; the one that has waited longest")
	b.want(200, "storage", "hub", "1\u202f234", ">State<", ">Audit<")
	b.get("/ui/audit")
	b.want(200, "alice", "web/app:&lt;b&gt;v1", "-<b>v1", "403", "upload of 2 blobs", "upload of 1 blob", "-fa6e90d")
	b.get("/ui/audit?q=web/db")
	b.want(200, "bob", "-web/app")
}

// queued returns a notifier whose events wait in memory.
func queued(t *testing.T) *notify.Notifier {
	t.Helper()
	n, err := notify.New(notify.Options{
		Endpoints: []notify.Endpoint{{Name: "room", URL: "http://127.0.0.1:1/", Timeout: time.Second, Backoff: time.Hour}}, MaxSize: 1 << 20, Version: notify.V1, Log: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}
