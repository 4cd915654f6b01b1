package logging

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestAccessLog(t *testing.T) {
	var out bytes.Buffer
	h := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		RecorderOf(w).SetUser(r.Header.Get("X-User"))
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "hello")
	}), Options{Log: zap.NewNop(), Access: NewAccessLog(&out)})
	for _, c := range []struct {
		name, target, user, referer, agent, want string
	}{
		{"plain", "/v2/", "", "", "curl/8", `192.0.2.1 - - [T] "PUT /v2/ HTTP/1.1" 202 5 "" "curl/8"`},
		{"user", "/v2/", "alice", "", "", `192.0.2.1 - alice [T] "PUT /v2/ HTTP/1.1" 202 5 "" ""`},
		{"secrets", "/u?_state=s&digest=d", "", "http://x/?token=t", "", `192.0.2.1 - - [T] "PUT /u?digest=d HTTP/1.1" 202 5 "http://x/?token=***" ""`},
		{"forgery", "/", "a b\"\n", "", "x\" 200\n\x1b[31m", `192.0.2.1 - a\x20b\"\x0a [T] "PUT / HTTP/1.1" 202 5 "" "x\" 200\x0a\x1b[31m"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out.Reset()
			r := httptest.NewRequest(http.MethodPut, c.target, nil)
			r.Header = http.Header{"X-User": {c.user}, "Referer": {c.referer}, "User-Agent": {c.agent}}
			h.ServeHTTP(httptest.NewRecorder(), r)
			got := regexp.MustCompile(`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`).ReplaceAllString(out.String(), "[T]")
			if got != c.want+"\n" {
				t.Errorf("got  %swant %s", got, c.want)
			}
		})
	}
}

func TestRecorder(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		bytes  int64
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 200, 0},
		{"write", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("abc")) }, 200, 3},
		{"status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusBadRequest)
		}, 404, 0},
		{"informational", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		}, 201, 0},
		{"copy", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("abcd")) }, 200, 4},
		{"flush", func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(http.StatusBadGateway)
		}, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := false
			h := Wrap(c.answer, Options{Log: zap.NewNop(), Done: func(rec *Recorder, _ *http.Request) {
				done = true
				if rec.Status() != c.status || rec.Bytes() != c.bytes {
					t.Errorf("%d, %d bytes; want %d, %d", rec.Status(), rec.Bytes(), c.status, c.bytes)
				}
			}})
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if !done {
				t.Error("Done was not called")
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	var got string
	h := Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		got = RequestID(w)
		if again := RequestID(wrapped{w}); again != got {
			t.Errorf("%q, then %q", got, again)
		}
	}), Options{Log: zap.NewNop()})
	seen := map[string]bool{}
	for header, kept := range map[string]bool{
		"": false, "0123456789abcdef": true, "8f14e45f-ea.B_c": true, "short": false,
		"with space in it": false, "new\nline12345": false, strings.Repeat("x", 65): false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if header != "" {
			r.Header["X-Request-Id"] = []string{header}
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if (got == header) != kept || seen[got] || got == "" {
			t.Errorf("header %q: id %q", header, got)
		}
		seen[got] = true
	}
	if RequestID(httptest.NewRecorder()) != "" {
		t.Error("an id without a Recorder")
	}
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestPanics(t *testing.T) {
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		status int // 0 is a broken connection
		logged int
	}{
		{"before the answer", func(http.ResponseWriter, *http.Request) { panic("boom") }, 500, 1},
		{"with nil", func(http.ResponseWriter, *http.Request) { panic(error(nil)) }, 500, 1},
		{"amid the answer", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "half"); panic("boom") }, 0, 1},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			done := 0
			s := httptest.NewServer(Wrap(c.h, Options{Log: zap.New(core), Done: func(*Recorder, *http.Request) { done++ }}))
			resp, err := http.Get(s.URL + "/?_state=secret")
			status := 0
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil {
					status = resp.StatusCode
				}
			}
			s.Close() // waits for the handler
			if status != c.status || logs.Len() != c.logged || done != 1 {
				t.Errorf("status %d (%v), %d lines, Done called %d times", status, err, logs.Len(), done)
			}
			for _, e := range logs.All() {
				if e.ContextMap()["uri"] != "/" || e.ContextMap()["request"] == "" {
					t.Errorf("logged %v", e.ContextMap())
				}
			}
		})
	}
}

func TestPanickedAnswers(t *testing.T) {
	h := Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }), Options{
		Log:      zap.NewNop(),
		Panicked: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusInternalServerError) },
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 500 || w.Body.String() != "{}\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// fileTaker is a ResponseWriter that notes what ReadFrom is given.
type fileTaker struct {
	*httptest.ResponseRecorder
	took io.Reader
}

func (f *fileTaker) ReadFrom(src io.Reader) (int64, error) {
	f.took = src
	return io.Copy(io.Discard, src)
}

func TestFilesReachTheWriterAsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &fileTaker{ResponseRecorder: httptest.NewRecorder()}
	h := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		http.ServeContent(w, r, "", time.Time{}, f)
	}), Options{Log: zap.NewNop(), Done: func(rec *Recorder, _ *http.Request) {
		if rec.Bytes() != 10 {
			t.Errorf("%d bytes", rec.Bytes())
		}
	}})
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	limited, ok := w.took.(*io.LimitedReader)
	if !ok {
		t.Fatalf("the writer got a %T", w.took)
	}
	if _, ok := limited.R.(*os.File); !ok {
		t.Errorf("behind the limit is a %T", limited.R)
	}
}

func TestControllerReachesTheConnection(t *testing.T) {
	s := httptest.NewServer(Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.SetReadDeadline(time.Now().Add(time.Minute)), rc.SetWriteDeadline(time.Now().Add(time.Minute)), rc.Flush()); err != nil {
			t.Error(err)
		}
		c, _, err := rc.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}), Options{Log: zap.NewNop()}))
	defer s.Close()
	if resp, err := http.Get(s.URL); err == nil {
		resp.Body.Close()
	}
}

func TestWrapIsCheap(t *testing.T) {
	h := Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), Options{Log: zap.NewNop(), Access: NewAccessLog(nowhere{})})
	w, r := &discard{http.Header{}}, httptest.NewRequest(http.MethodGet, "/v2/a/manifests/latest", nil)
	if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }); n > 3 { // none, but the race detector's pools forget
		t.Errorf("%v allocations", n)
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
