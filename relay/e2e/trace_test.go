//go:build goolm

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// span is a span as OpenTelemetry's collector writes it.
type span struct {
	Service      string `json:"-"`
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Attributes   []struct {
		Key   string `json:"key"`
		Value struct {
			String string `json:"stringValue"`
		} `json:"value"`
	} `json:"attributes"`
}

// A push to the registry, its storage, the event, its commit in the relay and the request to the homeserver are one trace in
// OpenTelemetry's collector. It holds neither tokens nor the text of the message.
func TestFull_Trace(t *testing.T) {
	s := newSite(t)
	endpoint, read := s.collector()
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=200")
	s.start()
	a := s.application("registry", "")
	addr := s.registry(registryBinary(t), a.token, "")
	layer := filepath.Join(s.dir, "layer.tar")
	s.must(os.WriteFile(layer, layerOf(t, 100_000), 0o600))
	s.crane("append", "-f", layer, "-t", addr+"/team/hello:1")
	s.eventually("the message is read", func() bool { return s.count(a.room, "team/hello:1 pushed") == 1 })

	// From the request to the homeserver up to the push.
	way := []struct{ service, name string }{
		{"relay", "PUT"},
		{"relay", "deliver"},
		{"relay", "POST /hook/registry"},
		{"registry", "notify"},
		{"registry", "PUT /v2/{name}/manifests/{reference}"},
	}
	var all []span
	follow := func() (missing string) {
		all, missing = read(), way[0].name
		for _, last := range all {
			if last.Service != way[0].service || last.Name != way[0].name {
				continue
			}
			if missing = climb(all, last, way[1:]); missing == "" {
				return ""
			}
		}
		return missing
	}
	s.eventually("the trace is complete", func() bool { return follow() == "" })
	inTrace := func(name string) bool { // in that of the delivery
		follow() // the services send their spans at different times
		i := slices.IndexFunc(all, func(s span) bool { return s.Name == "deliver" })
		return i >= 0 && slices.ContainsFunc(all, func(s span) bool { return s.Name == name && s.TraceID == all[i].TraceID })
	}
	for _, name := range []string{"Commit", "commit"} { // of the storage, and of the message
		s.eventually("the trace has the span "+name, func() bool { return inTrace(name) })
	}
	for _, one := range all {
		for _, attribute := range one.Attributes {
			if v := attribute.Value.String; strings.Contains(v, a.token) || strings.Contains(v, "team/hello:1 pushed") || strings.Contains(v, "Bearer") {
				t.Errorf("%s: %s=%s", one.Name, attribute.Key, v)
			}
		}
	}
}

// climb follows a span's parents along the way, and returns the step that isn't found.
func climb(all []span, at span, way []struct{ service, name string }) (missing string) {
steps:
	for _, step := range way {
		for _, one := range all {
			if one.SpanID == at.ParentSpanID && one.TraceID == at.TraceID && one.Service == step.service && one.Name == step.name {
				at = one
				continue steps
			}
		}
		return step.name
	}
	return ""
}

// collector runs OpenTelemetry's collector, and returns its address and a function that reads the spans that it has.
func (s *site) collector() (endpoint string, read func() []span) {
	s.Helper()
	dir := s.TempDir()
	binary, config, file := filepath.Join(dir, "collector"), filepath.Join(dir, "collector.yml"), filepath.Join(dir, "spans.json")
	s.run("collector", "go", "build", "-o", binary, ".")
	addr := programtest.FreeAddr(s.T)
	s.must(os.WriteFile(config, fmt.Appendf(nil, `receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {file: {path: %q, flush_interval: 100ms}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}}
`, addr, file), 0o600))
	programtest.Start(s.T, exec.Command(binary, "--config", "file:"+config), "http://"+addr)
	return "http://" + addr, func() []span { return s.spans(file) }
}

// spans reads what the collector has written.
func (s *site) spans(file string) (all []span) {
	s.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		return nil // nothing yet
	}
	for line := range bytes.Lines(content) {
		var batch struct {
			ResourceSpans []struct {
				Resource   span `json:"resource"`
				ScopeSpans []struct {
					Spans []span `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if json.Unmarshal(line, &batch) != nil {
			continue // the last line, still being written
		}
		for _, r := range batch.ResourceSpans {
			service := ""
			for _, attribute := range r.Resource.Attributes {
				if attribute.Key == "service.name" {
					service = attribute.Value.String
				}
			}
			for _, scope := range r.ScopeSpans {
				for _, one := range scope.Spans {
					one.Service = service
					all = append(all, one)
				}
			}
		}
	}
	return all
}
