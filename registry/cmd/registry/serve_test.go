package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// running is `registry serve` in this process.
type running struct {
	t              *testing.T
	stdout, stderr programtest.Output
	stop           context.CancelFunc
	code           chan int
}

// start serves what the variables say, on ports that the kernel chooses.
func start(t *testing.T, variables map[string]string, args ...string) *running {
	t.Helper()
	t.Setenv("REGISTRY_HTTP_ADDR", "127.0.0.1:0")
	for k, v := range variables {
		t.Setenv(k, v)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, stop: stop, code: make(chan int, 1)}
	go func() {
		r.code <- run(ctx, append([]string{"serve"}, args...), strings.NewReader(""), &r.stdout, &r.stderr)
	}()
	t.Cleanup(stop)
	return r
}

// find waits until the expression's group is found in the log.
func (r *running) find(expression string) string {
	r.t.Helper()
	re := regexp.MustCompile(expression)
	for range 1000 {
		if m := re.FindStringSubmatch(r.stderr.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case code := <-r.code:
			r.t.Fatalf("it ended with %d: %s", code, &r.stderr)
		case <-time.After(5 * time.Millisecond):
		}
	}
	r.t.Fatalf("%s is not in the log: %s", expression, &r.stderr)
	return ""
}

func (r *running) url() string {
	return "http://" + r.find(`registry started.*address="?(127\.0\.0\.1:\d+)`)
}

func (r *running) debugURL() string {
	return "http://" + r.find(`listening on (127\.0\.0\.1:\d+).*server=debug`)
}

func (r *running) end() int {
	r.stop()
	return <-r.code
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServeAndEnd(t *testing.T) {
	root := t.TempDir()
	r := start(t, map[string]string{
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": root,
		"REGISTRY_HTTP_DEBUG_ADDR":                  "127.0.0.1:0",
		"REGISTRY_HTTP_DEBUG_PROMETHEUS_ENABLED":    "true",
		"REGISTRY_HTTP_DEBUG_PPROF":                 "true",
		"REGISTRY_LOG_LEVEL":                        "debug",
	})
	url, debug := r.url(), r.debugURL()
	for target, want := range map[string]string{
		url + "/v2/":                        "{}",
		url + "/v2/_catalog":                `{"repositories":[]}` + "\n",
		url + "/debug/health":               `{"status":"healthy"}`,
		debug + "/debug/health":             "{}",
		debug + "/debug/vars":               `"memstats"`,
		debug + "/debug/pprof/":             "goroutine",
		debug + "/debug/pprof/heap?debug=1": "heap profile",
	} {
		if code, body := get(t, target); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s, want %s", target, code, body, want)
		}
	}
	for _, want := range []string{
		`registry_http_requests_total{code="200",handler="catalog",method="get"} 1`,
		`registry_storage_action_seconds_count{action="List",driver="filesystem"}`,
		"go_goroutines", "process_resident_memory_bytes", `registry_build_info{commit="`,
		"registry_health_ready 1", `registry_health_check{check="storagedriver_filesystem_write"} 1`,
		"registry_storage_volume_size_bytes ", "registry_storage_volume_free_bytes ", "registry_audit_lost_lines_total 0",
	} {
		if code, body := get(t, debug+"/metrics"); code != 200 || !strings.Contains(body, want) {
			t.Errorf("metrics: %d without %s", code, want)
		}
	}
	if code, _ := get(t, url+"/metrics"); code != 404 {
		t.Errorf("metrics on the clients' address: %d", code)
	}
	if code := r.end(); code != 0 {
		t.Errorf("ended with %d: %s", code, &r.stderr)
	}
	if !strings.Contains(r.stdout.String(), `"GET /v2/_catalog HTTP/1.1" 200`) {
		t.Errorf("access log: %s", &r.stdout)
	}
	for _, want := range []string{"http.secret is not set", "storage operation", "registry stopped"} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("%q is not in the log: %s", want, &r.stderr)
		}
	}
}

func TestServeFromAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	text := "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {inmemory: {}}\nhttp: {addr: \"127.0.0.1:1\", secret: x, prefix: /reg/}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, map[string]string{"REGISTRY_LOG_LEVEL": "info"}, file)
	if code, body := get(t, r.url()+"/reg/v2/"); code != 200 || body != "{}" {
		t.Errorf("%d %s", code, body)
	}
	if code := r.end(); code != 0 || r.stdout.String() != "" || strings.Contains(r.stderr.String(), "random one") {
		t.Errorf("ended with %d, %s%s", code, &r.stdout, &r.stderr)
	}
}

func TestMetricsOfHealth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, map[string]string{
		"REGISTRY_STORAGE": "inmemory", "REGISTRY_HTTP_DEBUG_ADDR": "127.0.0.1:0", "REGISTRY_HTTP_DEBUG_PROMETHEUS_ENABLED": "true",
		"REGISTRY_HEALTH_FILE": "[{file: " + file + ", interval: 10ms}]",
	})
	debug := r.debugURL()
	r.find("health check fails")
	_, body := get(t, debug+"/metrics")
	for _, want := range []string{"registry_health_ready 0", `registry_health_check{check="` + file + `"} 0`, `registry_health_check{check="storagedriver_inmemory"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics without %s", want)
		}
	}
}

// A request under way is answered before the registry ends.
func TestDrain(t *testing.T) {
	r := start(t, map[string]string{"REGISTRY_STORAGE": "inmemory", "REGISTRY_LOG_LEVEL": "debug"})
	content := bytes.Repeat([]byte("x"), 1<<20)
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/v2/a/blobs/uploads/?digest=sha256:%x", r.url(), sha256.Sum256(content)), body)
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	if _, err := feed.Write(content[:1<<19]); err != nil {
		t.Fatal(err)
	}
	r.find("action=Writer(.*)")
	r.stop()
	r.find("stopping server gracefully.*requests=(1)")
	if _, err := feed.Write(content[1<<19:]); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if got := <-status; got != 201 {
		t.Errorf("the push that was under way: %d", got)
	}
	if code := <-r.code; code != 0 {
		t.Errorf("ended with %d: %s", code, &r.stderr)
	}
}

// Each failure is a sentence on stderr and a code that is not 0.
func TestFailures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no: yaml: file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variables map[string]string
		args      []string
		want      string
	}{
		"unknown command":  {nil, []string{"sevre"}, `unknown command "sevre"`},
		"unknown flag":     {nil, []string{"serve", "--nothing"}, "unknown flag"},
		"two files":        {nil, []string{"serve", "a", "b"}, "usage: registry serve [FILE]"},
		"no configuration": {nil, []string{"serve"}, "no configuration"},
		"not YAML":         {nil, []string{"serve", file}, file},
		"root is a file":   {map[string]string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": file}, []string{"serve"}, "not a directory"},
		"no object store":  {map[string]string{"REGISTRY_STORAGE_S3_BUCKET": "b", "REGISTRY_STORAGE_S3_REGIONENDPOINT": "http://127.0.0.1:1", "REGISTRY_STORAGE_S3_ACCESSKEY": "a", "REGISTRY_STORAGE_S3_SECRETKEY": "s"}, []string{"serve"}, "storage.s3.regionendpoint: cannot reach http://127.0.0.1:1"},
		"no Azure":         {map[string]string{"REGISTRY_STORAGE_AZURE_ACCOUNTNAME": "a", "REGISTRY_STORAGE_AZURE_ACCOUNTKEY": "a2V5", "REGISTRY_STORAGE_AZURE_CONTAINER": "abc", "REGISTRY_STORAGE_AZURE_SERVICEURL": "http://127.0.0.1:1/a"}, []string{"serve"}, "storage.azure.serviceurl: cannot reach 127.0.0.1:1"},
		"no Google":        {map[string]string{"REGISTRY_STORAGE_GCS_BUCKET": "b", "STORAGE_EMULATOR_HOST": "127.0.0.1:1"}, []string{"serve"}, "storage.gcs.bucket: cannot reach 127.0.0.1:1"},
		"no key of Google": {map[string]string{"REGISTRY_STORAGE_GCS_BUCKET": "b", "REGISTRY_STORAGE_GCS_KEYFILE": "/nowhere"}, []string{"serve"}, "storage.gcs.keyfile: /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.variables {
				t.Setenv(k, v)
			}
			var stdout, stderr programtest.Output
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			code := run(ctx, c.args, strings.NewReader(""), &stdout, &stderr)
			text := stderr.String()
			if code == 0 || !strings.Contains(text, c.want) || strings.Contains(text, "goroutine") || ctx.Err() != nil {
				t.Errorf("code %d, %q, want a sentence with %q", code, text, c.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	for args, want := range map[string]string{
		"version":   "registry slipway/registry dev\ncommit unknown",
		"--version": "registry slipway/registry dev\n",
		"-v":        "registry slipway/registry dev\n",
		"":          "registry serve FILE",
		"help":      "Free space and check it:",
		"serve -h":  "REGISTRY_CONFIGURATION_PATH",
		"config":    "Check or show the configuration",
	} {
		var stdout, stderr programtest.Output
		if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), want) || stderr.String() != "" {
			t.Errorf("registry %s: code %d, %q %q, want %q", args, code, &stdout, &stderr, want)
		}
	}
}

// TestHealthNamesNoPassword: the debug address names each failing check, without its
// password; the clients' address, which needs no login for it either, names none.
func TestHealthNamesNoPassword(t *testing.T) {
	r := start(t, map[string]string{
		"REGISTRY_STORAGE_INMEMORY": "{}",
		"REGISTRY_HTTP_DEBUG_ADDR":  "127.0.0.1:0",
		"REGISTRY_HEALTH_HTTP": `[{uri: "http://u:hunter2@127.0.0.1:1/probe?token=hunter3", interval: 10ms},
			{uri: "http://u:hunter2@127.0.0.1:1/probe?token=hunter4", interval: 10ms}]`,
	})
	url, debug, told := r.url(), r.debugURL(), ""
	for deadline := time.Now().Add(10 * time.Second); strings.Count(told, "/probe") < 2 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		_, told = get(t, debug+"/debug/health")
	}
	if code, body := get(t, url+"/debug/health"); code != 503 || body != `{"status":"unhealthy"}` {
		t.Errorf("the clients' address: %d %s", code, body)
	}
	if strings.Count(told, "/probe") != 2 || strings.Contains(told, "hunter") {
		t.Errorf("got %s", told)
	}
	r.end()
	if log := r.stderr.String(); strings.Contains(log, "hunter") {
		t.Errorf("log: %s", log)
	}
}
