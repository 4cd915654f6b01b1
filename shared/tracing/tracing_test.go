package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// recorded makes spans that the test reads.
func recorded(t *testing.T, o ...sdk.TracerProviderOption) *tracetest.InMemoryExporter {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	t.Cleanup(Use(sdk.NewTracerProvider(append(o, sdk.WithSyncer(spans))...)))
	return spans
}

func named(t *testing.T, all tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %s in %v", name, all)
	}
	return all[i]
}

func TestWanted(t *testing.T) {
	for want, all := range map[bool][]map[string]string{
		false: {
			{},
			{"OTEL_SERVICE_NAME": "x"},
			{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
			{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
		},
		true: {
			{"OTEL_TRACES_EXPORTER": "otlp"},
			{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
			{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"},
		},
	} {
		for _, env := range all {
			if got := Wanted(func(name string) string { return env[name] }); got != want {
				t.Errorf("%v: %t", env, got)
			}
		}
	}
}

// A request, what it does, what it asks another service for, and what that does are one trace, with routes in place of paths.
func TestOneTrace(t *testing.T) {
	spans := recorded(t)
	far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r, span := Request(r)
		Route(r, "/far/{token}")
		Answered(span, http.StatusServiceUnavailable, 5, func() string { return "id" })
	}))
	defer far.Close()
	client := http.Client{Transport: Transport(http.DefaultTransport)}

	r, span := Request(httptest.NewRequest(http.MethodPut, "/near/secret", nil))
	Route(r, "/near/{token}")
	ctx, inner := Span(r.Context(), "store")
	parent := Parent(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, far.URL+"/far/secret?key=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	End(inner, errors.New("secret"))
	Answered(span, http.StatusCreated, 0, func() string { return "id" })
	_, later := Span(Continue(context.Background(), parent), "deliver")
	End(later, nil)

	all := spans.GetSpans()
	near, store, post, served, deliver := named(t, all, "PUT /near/{token}"), named(t, all, "store"), named(t, all, "POST"), named(t, all, "POST /far/{token}"), named(t, all, "deliver")
	for child, parent := range map[*tracetest.SpanStub]*tracetest.SpanStub{&store: &near, &post: &store, &served: &post, &deliver: &store} {
		if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.SpanContext.TraceID() != near.SpanContext.TraceID() {
			t.Errorf("%s isn't below %s", child.Name, parent.Name)
		}
	}
	for _, s := range all {
		if want := s.Name == "store" || s.Name == "POST /far/{token}"; (s.Status.Code == codes.Error) != want || s.Status.Description != "" {
			t.Errorf("%s: %v", s.Name, s.Status)
		}
		for _, a := range s.Attributes {
			if v := a.Value.String(); v == "secret" || len(v) > 40 {
				t.Errorf("%s: %s=%s", s.Name, a.Key, v)
			}
		}
	}
}

// Only a request or a job begins a trace: what a service does by itself makes no spans.
func TestNothingAlone(t *testing.T) {
	spans := recorded(t)
	ctx, span := Span(context.Background(), "store")
	if Parent(ctx) != "" {
		t.Error("there is a parent")
	}
	End(span, nil)
	ctx, root := Root(context.Background(), "job")
	_, phase := Span(ctx, "phase")
	End(phase, nil)
	End(root, nil)
	if all := spans.GetSpans(); len(all) != 2 || named(t, all, "phase").Parent.SpanID() != named(t, all, "job").SpanContext.SpanID() {
		t.Errorf("%v", all)
	}
}

// What the sampler leaves out isn't passed on.
func TestNotSampled(t *testing.T) {
	spans := recorded(t, sdk.WithSampler(sdk.NeverSample()))
	r, span := Request(httptest.NewRequest(http.MethodGet, "/", nil))
	if p := Parent(r.Context()); p != "" {
		t.Error(p)
	}
	Answered(span, http.StatusOK, 0, func() string { t.Error("the ID was made"); return "" })
	if all := spans.GetSpans(); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

// While tracing is off nothing is allocated, and what a sender passed or another process stored stays unread.
func TestOff(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	id := func() string { return "" }
	if n := testing.AllocsPerRun(100, func() {
		r, span := Request(r)
		Route(r, "/")
		ctx, inner := Span(r.Context(), "store")
		Inject(ctx, r.Header)
		if Parent(Continue(ctx, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")) != "" {
			t.Error("there is a parent")
		}
		End(inner, nil)
		Answered(span, http.StatusOK, 0, id)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The variables choose the exporter, and what no exporter is for is an error that names the variable.
func TestNewExporter(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string // the type of its client or its own, or a part of the error
	}{
		{nil, "otlptracehttp.client"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlptracegrpc.client"},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "otlptracehttp.client"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, "stdouttrace"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, `OTEL_TRACES_EXPORTER is "zipkin"`},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"`},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "http/json"`},
	} {
		e, err := newExporter(t.Context(), func(name string) string { return tt.env[name] })
		if got := fmt.Sprintf("%#v %v", e, err); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s", tt.env, got)
		}
		if err == nil {
			if err := e.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
