package notify

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"slipway/shared/tracing"
)

func sendTo(e Endpoint) *sender {
	e.Timeout = cmp.Or(e.Timeout, time.Second)
	return newSender(&e, &Options{Version: V1, UserAgent: "test", Log: zap.NewNop()})
}

func TestSend(t *testing.T) {
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer s.Close()
	x := sendTo(Endpoint{
		URL: s.URL + "/hook", Secret: []byte("key"),
		Headers: http.Header{"Authorization": {"Bearer a"}, "X-Two": {"1", "2"}, "Host": {"other.example"}},
	})
	if status, err := x.send(t.Context(), []byte(`{"events":[{"id":"1"}]}`)); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	if want := "{\n   \"events\": [\n      {\n         \"id\": \"1\"\n      }\n   ]\n}"; string(body) != want {
		t.Errorf("body %s", body)
	}
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write(body)
	for name, want := range map[string]string{
		"Content-Type": "application/vnd.docker.distribution.events.v1+json", "Authorization": "Bearer a", "X-Two": "1,2",
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "User-Agent": "test",
	} {
		if v := strings.Join(got.Header.Values(name), ","); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	stamp, signatures, _ := strings.Cut(strings.TrimPrefix(got.Header.Get("X-Slipway-Signature"), "t="), ",v1=")
	signature, bound, _ := strings.Cut(signatures, ",v2=")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age < 0 || age > time.Minute {
		t.Errorf("signed at %q", stamp)
	}
	mac = hmac.New(sha256.New, []byte("key"))
	fmt.Fprintf(mac, "%s.%s", stamp, body)
	if want := hex.EncodeToString(mac.Sum(nil)); signature != want {
		t.Errorf("X-Slipway-Signature: %q, want %q", got.Header.Get("X-Slipway-Signature"), want)
	}
	mac = hmac.New(sha256.New, []byte("key"))
	fmt.Fprintf(mac, "%s.Bearer a.%s", stamp, body)
	if want := hex.EncodeToString(mac.Sum(nil)); bound != want {
		t.Errorf("X-Slipway-Signature: %q, want v2=%s", got.Header.Get("X-Slipway-Signature"), want)
	}
	if got.Method != "POST" || got.Host != "other.example" || got.URL.Path != "/hook" {
		t.Errorf("%s %s %s", got.Method, got.Host, got.URL)
	}
}

// What is no success, and what the log reads of it.
func TestSendFailures(t *testing.T) {
	reached := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer other.Close()
	other.URL = strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	tests := []struct {
		name   string
		handle http.HandlerFunc
		want   failure
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no\x00w\x1b[31m  \n not", 500) }, failure{500, `answered 500 Internal Server Error: "no\x00w\x1b[31m not"`, 0}},
		{"long", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			w.Write([]byte(strings.Repeat("ä", 1<<20)))
		}, failure{400, `answered 400 Bad Request: "` + strings.Repeat("ä", maxExcerpt) + `"`, 0}},
		{"retry", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(503)
		}, failure{503, "answered 503 Service Unavailable", 2 * time.Minute}},
		{"found", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login?token=secret", http.StatusFound)
		}, failure{302, "answered 302 Found, which is not followed: make URL/login the endpoint's url", 0}},
		{"same host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
		}, failure{308, "answered 308 Permanent Redirect, which is not followed: make URL/there the endpoint's url", 0}},
		{"other host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x", http.StatusPermanentRedirect)
		}, failure{308, "answered 308 Permanent Redirect, which is not followed: make " + other.URL + "/x the endpoint's url", 0}},
		{"not modified", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, failure{304, "answered 304 Not Modified, which is not followed: make where it leads the endpoint's url", 0}},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, failure{0, "cannot be reached: EOF", 0}},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, failure{0, "no answer within 200ms", 0}},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, failure{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.handle)
			defer s.Close()
			timeout := time.Minute
			if tt.name == "slow" {
				timeout = 200 * time.Millisecond
			}
			x := sendTo(Endpoint{URL: s.URL + "/?token=secret", Timeout: timeout})
			_, err := x.send(t.Context(), []byte(`{}`))
			got := &failure{}
			errors.As(err, &got)
			tt.want.text = strings.ReplaceAll(tt.want.text, "URL", s.URL)
			if *got != tt.want || strings.Contains(got.text, "secret") {
				t.Errorf("got  %+v\nwant %+v", *got, tt.want)
			}
		})
	}
	if reached > 0 {
		t.Error("the headers went to another host")
	}
}

func TestWait(t *testing.T) {
	e := endpoint{threshold: 3, backoff: time.Second}
	for failures, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 100 * time.Millisecond, 3: time.Second, 4: 2 * time.Second, 8: 32 * time.Second, 9: time.Minute, 1 << 30: time.Minute,
	} {
		if got := e.wait(failures); got != want {
			t.Errorf("%d failures: %v, want %v", failures, got, want)
		}
	}
	if got := (&endpoint{threshold: 1, backoff: time.Hour}).wait(50); got != time.Hour {
		t.Errorf("a long backoff became %v", got)
	}
}

func TestReadHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	if _, err := readHeaders(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# for the relay\n\nAuthorization:  Bearer a:b \r\nX-A: 1\nX-A: 2")
	h, err := readHeaders(path)
	if err != nil || h.Get("Authorization") != "Bearer a:b" || strings.Join(h["X-A"], " ") != "1 2" {
		t.Error(h, err)
	}
	for content, want := range map[string]string{
		"":                "holds no header",
		"# nothing\n":     "holds no header",
		"A: b\nhunter2\n": "line 2 is not a header",
		"A b: c\n":        "line 1 is not a header",
		": c\n":           "line 1 is not a header",
		"A: \x01\n":       "line 1 is not a header",
	} {
		write(content)
		if _, err := readHeaders(path); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.20q: %v, want %s", content, err, want)
		}
	}
}

// An event is sent as a part of the trace of its request.
func TestSend_Trace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	defer tracing.Use(sdk.NewTracerProvider(sdk.WithSyncer(spans)))()
	ctx, request := tracing.Root(t.Context(), "PUT")
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	for _, parent := range []string{tracing.Parent(ctx), ""} {
		body, err := (&Event{Trace: parent}).encode(V1, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sendTo(Endpoint{Name: "relay", URL: s.URL}).send(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		want := ""
		if parent != "" {
			all := spans.GetSpans()
			if len(all) != 1 || all[0].Name != "notify" || all[0].Parent.SpanID() != request.SpanContext().SpanID() {
				t.Fatalf("%v", all)
			}
			want = "00-" + all[0].SpanContext.TraceID().String() + "-" + all[0].SpanContext.SpanID().String() + "-01"
		}
		if v := got.Get("Traceparent"); v != want {
			t.Errorf("traceparent %q, want %q", v, want)
		}
	}
}
