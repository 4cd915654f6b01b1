package delivery_test

import (
	"testing"
	"testing/synctest"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/shared/tracing"
)

// The attempts at a message are a part of the trace of the request that brought it, also after a restart.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		defer tracing.Use(sdk.NewTracerProvider(sdk.WithSyncer(spans)))()
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		request, span := tracing.Root(ctx, "POST")
		a, err := r.Accept(request, post.Draft{Token: app.Token, Content: post.Content{Body: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		span.End()
		r.Restart()
		r.Await(a.ID, post.StateSent)
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "untraced"}})
		r.Drained()
		names := map[string]int{}
		for _, s := range spans.GetSpans() {
			names[s.Name]++
			if s.SpanContext.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
		}
		if len(names) != 3 || names["commit"] != 1 || names["deliver"] != 1 {
			t.Errorf("%v", names)
		}
	})
}
