package metrics

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// password opens the relay to its administrator.
const password = "correct-horse"

// Export starts both services, lets them do a little of everything and returns
// what they export then.
func Export(t testing.TB) Series {
	t.Helper()
	s := Series{}
	registry, relay := startRegistry(t), startRelay(t)
	s.add(registry())
	s.add(relay())
	return s
}

const registryConfig = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  maintenance:
    gc: {enabled: true, interval: 1s}
    verify: {enabled: true, interval: 1s}
    retention: {enabled: true, interval: 1s, rules: [{repositories: ["**"], action: delete, newest: 1}]}
http:
  addr: %q
  debug: {addr: %q, prometheus: {enabled: true}}
notifications:
  endpoints: [{name: relay, url: %q}]
proxy:
  upstreams: [{prefix: hub, remoteurl: %q}]
replication:
  targets: [{name: backup, url: %q, repositories: ["**"]}]
`

// startRegistry starts a registry that does all its work each second, and pushes
// an image. The function that it returns reads the metrics.
func startRegistry(t testing.TB) func() string {
	t.Helper()
	addr, debug := programtest.FreeAddr(t), programtest.FreeAddr(t)
	listener := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(listener.Close)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Remaining", "76;w=21600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(hub.Close)
	file := filepath.Join(t.TempDir(), "registry.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, registryConfig, t.TempDir(), addr, debug, listener.URL, hub.URL, listener.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), harness.Binary(t, "registry"), "serve", file)
	cmd.Env = []string{}
	programtest.Start(t, cmd, "http://"+addr+"/v2/")

	const config = "{}"
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(config)))
	request(t, http.MethodPost, "http://"+addr+"/v2/app/blobs/uploads/?digest="+digest, config, "application/octet-stream")
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":%q,"size":2},"layers":[]}`, kind, digest)
	request(t, http.MethodPut, "http://"+addr+"/v2/app/manifests/v1", manifest, kind)
	request(t, http.MethodGet, "http://"+addr+"/v2/app/manifests/v1", "", "")
	request(t, http.MethodGet, "http://"+addr+"/v2/app/blobs/"+digest, "", "")
	limited(t, "http://"+addr+"/v2/hub/app/manifests/v1")
	return func() string {
		t.Helper()
		return scrape(t, "http://"+debug+"/metrics", "registry_gc_freed_total", "registry_verify_findings", "registry_retention_runs_total", "registry_notifications_status_total")
	}
}

// limited pulls what the upstream does not give.
func limited(t testing.TB, url string) {
	t.Helper()
	if resp, _ := harness.Ask(t, nil, http.MethodGet, url, http.NoBody); resp.StatusCode != http.StatusTooManyRequests { //nolint:bodyclose // Ask has read and closed it
		t.Fatalf("GET %s: %s", url, resp.Status)
	}
}

// startRelay starts a relay at a homeserver that takes one message and refuses
// another. The function that it returns reads the metrics.
func startRelay(t testing.TB) func() string {
	t.Helper()
	addr := programtest.FreeAddr(t)
	server := httptest.NewServer(http.HandlerFunc(homeserver))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	cmd := exec.CommandContext(t.Context(), harness.Binary(t, "relay"), "serve")
	cmd.Env = []string{
		"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_DATABASE_CONNECTION=" + filepath.Join(t.TempDir(), "relay.db"), "RELAY_MATRIX_HOMESERVER=" + server.URL,
		"RELAY_MATRIX_USERNAME=@relay:example.org", "RELAY_ADMIN_MATRIXID=@you:example.org", "MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=" + password,
	}
	programtest.Start(t, cmd, "http://"+addr+"/readyz")

	var app struct{ Token string }
	answer := request(t, http.MethodPost, "http://admin:"+password+"@"+addr+"/application", `{"name": "backup"}`, "application/json")
	if err := json.Unmarshal([]byte(answer), &app); err != nil || app.Token == "" {
		t.Fatalf("an application: %s (%v)", answer, err)
	}
	for _, message := range []string{"taken", refused} {
		request(t, http.MethodPost, "http://"+addr+"/message?token="+app.Token, fmt.Sprintf(`{"message": %q}`, message), "application/json")
	}
	request(t, http.MethodPost, "http://"+addr+"/message?token=Awrong", `{"message": "lost"}`, "application/json")
	return func() string {
		t.Helper()
		return scrape(t, "http://"+addr+"/metrics", `relay_messages_sent_total 1`, `relay_messages_dead_total{reason="refused"} 1`)
	}
}

// refused is a message that the homeserver never takes.
const refused = "refused"

// homeserver answers like one with a single room.
func homeserver(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := ""
	switch path := strings.TrimPrefix(r.URL.Path, "/_matrix/client/v3/"); {
	case strings.Contains(path, "/send/"):
		var content struct{ Body string }
		_ = json.NewDecoder(r.Body).Decode(&content) // broken content is accepted
		if content.Body == refused {
			w.WriteHeader(http.StatusBadRequest)
			answer = `{"errcode": "M_BAD_JSON", "error": "no"}`
			break
		}
		answer = `{"event_id": "$1"}`
	case path == "login":
		answer = `{"user_id": "@relay:example.org", "device_id": "D", "access_token": "t"}`
	case path == "account/whoami":
		answer = `{"user_id": "@relay:example.org", "device_id": "D"}`
	case path == "createRoom":
		answer = `{"room_id": "!r:example.org"}`
	case path == "joined_rooms":
		answer = `{"joined_rooms": []}`
	case path == "sync":
		if r.URL.Query().Get("since") != "" {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}
		answer = `{"next_batch": "s1"}`
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = `{"errcode": "M_NOT_FOUND"}`
	}
	_, _ = w.Write([]byte(answer)) // a relay that is gone does not read it
}
