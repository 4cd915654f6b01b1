package tracing

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// newExporter makes the exporter that OTEL_TRACES_EXPORTER and the protocol variables choose. OpenTelemetry's autoexport does the same, but
// links exporters of metrics and logs, too.
func newExporter(ctx context.Context, getenv func(string) string) (sdk.SpanExporter, error) {
	switch name := cmp.Or(getenv("OTEL_TRACES_EXPORTER"), "otlp"); name {
	case "otlp":
	case "console":
		return stdouttrace.New()
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: must be otlp, console or none", name)
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(getenv(variable), "http/protobuf"); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s is %q: must be http/protobuf or grpc", variable, protocol)
	}
}
