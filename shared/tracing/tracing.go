// Package tracing sends spans of requests, and of what they cause, to an OpenTelemetry collector. The variables
// of the OpenTelemetry specification configure it; it is off without them, and then costs an atomic load.
//
// Names and attributes of spans are routes, storage paths and identifiers, never tokens, request paths or the text of messages.
package tracing

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"slipway/shared/build"
)

// scope names the spans' instrumentation.
const scope = "slipway"

// lastSpans bounds the time that a process which ends takes to send what it has collected.
const lastSpans = 3 * time.Second

// current makes the spans; nil while tracing is off.
var current atomic.Pointer[tracer]

type tracer struct{ trace.Tracer }

// Wanted reports whether the environment asks for spans: an exporter is chosen by OTEL_TRACES_EXPORTER, or a collector named by
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. CNCF distribution sends them to localhost unless
// OTEL_TRACES_EXPORTER is none.
func Wanted(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := getenv("OTEL_TRACES_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return cmp.Or(getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) != ""
}

// Start begins to send spans if the environment asks for them. The service has the name of the build unless OTEL_SERVICE_NAME
// or OTEL_RESOURCE_ATTRIBUTES has one. A collector that can't be reached is logged, at most once a minute. The caller must call stop,
// which sends what is left. The error is about the variables.
func Start(ctx context.Context, b build.Info, log *zap.Logger) (stop func(), err error) {
	if !Wanted(os.Getenv) {
		return func() {}, nil
	}
	exporter, err := newExporter(ctx, os.Getenv)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", b.Name), attribute.String("service.version", b.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	failures := log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewSamplerWithOptions(c, time.Minute, 1, 0) }))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { failures.Warn("traces cannot be sent", zap.Error(err)) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	off := Use(provider)
	log.Info("traces are sent")
	return func() {
		off()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			failures.Warn("the last traces could not be sent", zap.Error(err))
		}
	}, nil
}

// Use makes the provider's tracer the one of the process, until off is called.
func Use(p trace.TracerProvider) (off func()) {
	current.Store(&tracer{p.Tracer(scope)})
	return func() { current.Store(nil) }
}

// Span begins a span below the one of ctx. It records nothing unless that one does. The caller ends it, by [End].
func Span(ctx context.Context, name string) (context.Context, trace.Span) {
	return below(ctx, name, trace.SpanKindInternal)
}

func below(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	t := current.Load()
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, noop.Span{}
	}
	return t.Start(ctx, name, trace.WithSpanKind(kind))
}

// Root begins the span of something that nothing else causes, such as a scheduled job.
func Root(ctx context.Context, name string) (context.Context, trace.Span) {
	t := current.Load()
	if t == nil {
		return ctx, noop.Span{}
	}
	return t.Start(ctx, name, trace.WithNewRoot())
}

// End ends a span, and marks it as failed if err isn't nil. The text of err isn't kept: it may quote what was sent.
func End(s trace.Span, err error) {
	if err != nil && s.IsRecording() {
		s.SetStatus(codes.Error, "")
	}
	s.End()
}
