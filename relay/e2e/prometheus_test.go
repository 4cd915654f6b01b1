//go:build goolm

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// prometheus runs Prometheus and Alertmanager, which watch a disk that the result fills, and report to the applications.
func (s *site) prometheus(apps ...app) (fill func(percent int32)) {
	s.Helper()
	var used atomic.Int32
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "disk_used_percent %d\n", used.Load())
	}))
	s.Cleanup(exporter.Close)
	addr := programtest.FreeAddr(s.T)
	hooks := "route: {receiver: relay, group_wait: 0s, group_interval: 1s, repeat_interval: 1s}\nreceivers:\n- name: relay\n  webhook_configs:\n"
	for _, a := range apps {
		hooks += fmt.Sprintf("  - {url: %q}\n", s.url+"/hook/alertmanager/"+a.token)
	}
	files := map[string]string{
		"alertmanager.yml": hooks,
		"prometheus.yml": fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: disks, static_configs: [{targets: [%q]}]}]
`, addr, strings.TrimPrefix(exporter.URL, "http://")),
		"rules.yml": `groups:
- name: disks
  rules:
  - alert: DiskFull
    expr: disk_used_percent > 90
    labels: {severity: critical}
    annotations: {summary: The disk is full, description: "{{ $value }} percent used"}
`,
	}
	for name, text := range files {
		s.must(os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	s.runs("prometheus-alertmanager", "--config.file="+filepath.Join(s.dir, "alertmanager.yml"), "--storage.path="+s.dir, "--web.listen-address="+addr, "--cluster.listen-address=")
	s.runs("prometheus", "--config.file="+filepath.Join(s.dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(s.dir, "tsdb"), "--web.listen-address="+programtest.FreeAddr(s.T), "--rules.alert.resend-delay=500ms")
	return used.Store
}

// showsInBoth waits until two rooms show these states, and no others.
func (s *site) showsInBoth(reader *servertest.Reader, rooms [2]string, words []string, want ...string) {
	s.Helper()
	var got []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = states(reader, rooms[0], words...); slices.Equal(got, want) {
			if got = states(reader, rooms[1], words...); slices.Equal(got, want) {
				return
			}
		}
	}
	s.Fatalf("read: %q\nwant: %q\n%d and %d events cannot be read", got, want, reader.Unread(rooms[0]), reader.Unread(rooms[1]))
}

// A disk fills up, empties, and fills up again, seen by Prometheus; the relay is down at each turn. In a plain and an encrypted room
// each time is one message and its edits, which asks for an acknowledgement.
func TestFull_Alerts_Prometheus(t *testing.T) {
	s := newSite(t)
	s.start()
	sealed, reader := s.sealedRoom()
	plain := s.ownersRoom(nil)
	apps := []app{s.application("plain", plain), s.application("sealed", sealed)}
	for _, a := range apps {
		if status, out := s.ask(http.MethodPut, fmt.Sprint("/application/", a.id), object{"critical_retry": "10m"}); status != http.StatusOK || out["critical_retry"] != "10m" {
			t.Fatalf("critical_retry: %d %v", status, out)
		}
	}
	fill := s.prometheus(apps...)
	words := []string{"✅ Resolved", "✅", "92 percent", "95 percent", "98 percent", "DiskFull"}
	var want []string
	shows := func(more ...string) {
		t.Helper()
		want = append(want, more...)
		s.showsInBoth(reader, [2]string{plain, sealed}, words, want...)
	}
	for _, turn := range []struct {
		percent int32
		shown   []string
	}{
		{92, []string{"message 92 percent", "reaction ✅"}},
		{95, []string{"edit 95 percent"}},
		{20, []string{"edit ✅ Resolved"}},
		{98, []string{"message 98 percent", "reaction ✅"}},
		{20, []string{"edit ✅ Resolved"}},
	} {
		s.kill()
		fill(turn.percent)
		time.Sleep(1500 * time.Millisecond) // Alertmanager posts to nobody
		s.start()
		shows(turn.shown...)
	}
	time.Sleep(2 * time.Second) // what Alertmanager repeats
	shows()
	if got := s.bodies(sealed); len(got) != 0 {
		t.Errorf("in the clear: %q", got)
	}
}
