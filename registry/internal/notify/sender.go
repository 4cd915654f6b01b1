package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"slipway/registry/internal/retryafter"
	"slipway/shared/tracing"
)

// Limits of an answer, in bytes and characters, and of its Retry-After.
const (
	maxAnswer     = 64 << 10
	maxExcerpt    = 200
	maxRetryAfter = time.Hour
)

// Signatures are HMAC-SHA256 in hex, keyed with the endpoint's secret. hubSignature is "sha256=" and the HMAC of the
// body, as GitHub and WebSub sign. timedSignature is "t=<unix seconds>,v1=<HMAC of "<t>.<body>">,v2=<HMAC of
// "<t>.<Authorization>.<body>">": the time keeps an old request from being repeated, the header Authorization keeps it
// from being repeated with another credential.
const (
	hubSignature   = "X-Hub-Signature-256"
	timedSignature = "X-Slipway-Signature"
)

// failure describes why an endpoint has not taken an event.
type failure struct {
	status     int // 0 without an answer
	text       string
	retryAfter time.Duration // asked for by the endpoint, 0 if it did not
}

func (f *failure) Error() string { return f.text }

// sender posts to one endpoint. It is not safe for concurrent use.
type sender struct {
	to        *Endpoint
	mediaType string
	userAgent string
	client    *http.Client
}

func newSender(to *Endpoint, o *Options) *sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = 1, maxAnswer
	return &sender{
		to: to, mediaType: o.Version.MediaType(), userAgent: o.UserAgent,
		client: &http.Client{Transport: transport, Timeout: to.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// send posts the envelope. status is 0 without an answer; the error is a *failure.
func (s *sender) send(ctx context.Context, body []byte) (status int, err error) {
	ctx, span := tracing.Span(tracing.Continue(ctx, traceOf(body)), "notify")
	defer func() { tracing.End(span, err) }()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("endpoint", s.to.Name))
	}
	req, err := s.request(ctx, body)
	if err != nil {
		return 0, &failure{text: err.Error()}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, &failure{text: s.networkText(err)}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // read, so that the connection can be used again
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		target := "where it leads"
		if u, err := resp.Location(); err == nil {
			target = bareURL(u)
		}
		return resp.StatusCode, &failure{
			status: resp.StatusCode,
			text:   fmt.Sprintf("answered %s, which is not followed: make %s the endpoint's url", statusText(resp.StatusCode), target),
		}
	}
	return resp.StatusCode, &failure{
		status: resp.StatusCode, retryAfter: retryafter.Wait(resp.Header, time.Now(), maxRetryAfter),
		text: "answered " + statusText(resp.StatusCode) + excerpt(answer),
	}
}

// traceOf returns the span that an envelope is sent for.
func traceOf(body []byte) string {
	if !bytes.HasSuffix(body, []byte(`"}`)) { // one without ends with the list of events
		return ""
	}
	var e struct {
		Traceparent string `json:"traceparent"`
	}
	_ = json.Unmarshal(body, &e) // notify made it
	return e.Traceparent
}

func (s *sender) request(ctx context.Context, compact []byte) (*http.Request, error) {
	fromFile, err := readHeaders(s.to.HeadersFile)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := json.Indent(&body, compact, "", "   "); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.URL, bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", s.mediaType)
	req.Header.Set("User-Agent", s.userAgent)
	tracing.Inject(ctx, req.Header)
	maps.Copy(req.Header, s.to.Headers)
	maps.Copy(req.Header, fromFile)
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if s.to.Secret != nil {
		s.sign(req.Header, body.Bytes(), time.Now())
	}
	return req, nil
}

func (s *sender) sign(h http.Header, body []byte, now time.Time) {
	t := strconv.FormatInt(now.Unix(), 10)
	h.Set(hubSignature, "sha256="+s.mac(body))
	h.Set(timedSignature, "t="+t+",v1="+s.mac([]byte(t+"."), body)+",v2="+s.mac([]byte(t+"."+h.Get("Authorization")+"."), body))
}

func (s *sender) mac(parts ...[]byte) string {
	mac := hmac.New(sha256.New, s.to.Secret)
	for _, part := range parts {
		mac.Write(part)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// networkText describes the error without the URL, which may hold a secret.
func (s *sender) networkText(err error) string {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		if outer.Timeout() {
			return "no answer within " + s.to.Timeout.String()
		}
		err = outer.Err
	}
	return "cannot be reached: " + err.Error()
}

// bareURL returns the URL without its credentials and query.
func bareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// excerpt returns the beginning of an answer, quoted.
func excerpt(answer []byte) string {
	words := strings.Fields(string(answer))
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.*q", maxExcerpt, strings.Join(words, " "))
}
