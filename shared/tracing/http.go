package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// header carries a span from one process to another (W3C Trace Context).
const header = "traceparent"

var w3c = propagation.TraceContext{}

// Request begins the span of a request, below the sender's if that sent one, and returns the request with it. The span has the name of
// the method until [Route].
func Request(r *http.Request) (*http.Request, trace.Span) {
	t := current.Load()
	if t == nil {
		return r, noop.Span{}
	}
	ctx, span := t.Start(w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), r.Method, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return r, span
	}
	span.SetAttributes(attribute.String("http.request.method", r.Method))
	return r.WithContext(ctx), span
}

// Answered ends the span of a request with the status and the size of its answer, and the ID of the request in the log.
func Answered(s trace.Span, status int, bytes int64, id func() string) {
	if s.IsRecording() {
		s.SetAttributes(attribute.Int("http.response.status_code", status), attribute.Int64("http.response.body.size", bytes), attribute.String("request.id", id()))
		if status >= http.StatusInternalServerError {
			s.SetStatus(codes.Error, "")
		}
	}
	s.End()
}

// Route names the span of a request by its route, whose variables are not filled. "" leaves the name as it is.
func Route(r *http.Request, route string) {
	if route == "" || current.Load() == nil {
		return
	}
	if s := trace.SpanFromContext(r.Context()); s.IsRecording() {
		s.SetName(r.Method + " " + route)
		s.SetAttributes(attribute.String("http.route", route))
	}
}

// Transport makes a span of each request that a span of its context causes, and sends it along.
func Transport(base http.RoundTripper) http.RoundTripper { return &transport{base} }

type transport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := below(r.Context(), r.Method, trace.SpanKindClient)
	if !span.IsRecording() {
		return t.RoundTripper.RoundTrip(r)
	}
	span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Host))
	r = r.Clone(ctx)
	w3c.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	End(span, err)
	return resp, err
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the transport.
func (t *transport) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// Parent returns the span of ctx in a form that can be stored, "" if it isn't sent.
func Parent(ctx context.Context) string {
	if current.Load() == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier[header]
}

// Continue returns ctx with the span that [Parent] returned, and ctx itself for "".
func Continue(ctx context.Context, parent string) context.Context {
	if parent == "" || current.Load() == nil {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{header: parent})
}

// Inject adds the span of ctx to the header of a request.
func Inject(ctx context.Context, h http.Header) {
	if current.Load() != nil {
		w3c.Inject(ctx, propagation.HeaderCarrier(h))
	}
}
