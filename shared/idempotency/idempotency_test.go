package idempotency

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// made is a handler that reads the first byte of the body and counts its answers.
type made struct {
	mu    sync.Mutex
	count int
}

func (m *made) answer(w http.ResponseWriter, r *http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
		return err
	}
	w.Header().Set("X-Made", fmt.Sprint(m.count))
	w.WriteHeader(http.StatusCreated)
	_, err := fmt.Fprintf(w, "secret %d", m.count)
	return err
}

func TestServe(t *testing.T) {
	var kept Answers
	m := &made{}
	ask := func(owner, path, key, body string) (*httptest.ResponseRecorder, error) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		return w, kept.Serve(w, r, owner, 100, func(w http.ResponseWriter) error { return m.answer(w, r) })
	}
	for _, tt := range []struct{ owner, path, key, body, want, replay string }{
		{"a", "/x", "k", "body", "secret 1", ""},
		{"a", "/x", "k", "body", "secret 1", "true"},
		{"b", "/x", "k", "body", "secret 2", ""},
		{"a", "/y", "k", "body", "secret 3", ""},
		{"a", "/x", "l", "body", "secret 4", ""},
		{"a", "/x", "", "body", "secret 5", ""},
		{"a", "/x", "", "body", "secret 6", ""},
	} {
		w, err := ask(tt.owner, tt.path, tt.key, tt.body)
		if err != nil || w.Code != http.StatusCreated || w.Body.String() != tt.want || w.Header().Get("Idempotent-Replay") != tt.replay || w.Header().Get("X-Made") != tt.want[7:] {
			t.Errorf("%v: %v, %d %q %v", tt, err, w.Code, w.Body, w.Header())
		}
	}
	for _, tt := range []struct {
		key, body string
		want      error
	}{{"k", "bodies", ErrOtherRequest}, {strings.Repeat("k", 256), "body", ErrKeyTooLong}, {"k", strings.Repeat("x", 101), ErrBody}, {"failed", "", io.EOF}} {
		if _, err := ask("a", "/x", tt.key, tt.body); !errors.Is(err, tt.want) {
			t.Errorf("%.10s: %v, want %v", tt.key, err, tt.want)
		}
	}
	if w, err := ask("a", "/x", "failed", "body"); err != nil || w.Header().Get("Idempotent-Replay") != "" {
		t.Errorf("an error was kept: %v", err)
	}
}

// Requests with one key at the same time make one answer.
func TestServe_AtTheSameTime(t *testing.T) {
	var kept Answers
	var all sync.WaitGroup
	m := &made{}
	for range 8 {
		all.Go(func() {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
			r.Header.Set("Idempotency-Key", "k")
			if err := kept.Serve(w, r, "a", 100, func(w http.ResponseWriter) error { return m.answer(w, r) }); err != nil || w.Body.String() != "secret 1" {
				t.Errorf("%v, %q", err, w.Body)
			}
		})
	}
	all.Wait()
}

// The answer to a request that waited for one that failed is repeated, and failed requests take no place.
func TestServe_AfterAFailure(t *testing.T) {
	var kept Answers
	serve := func(handle func(http.ResponseWriter) error) (*httptest.ResponseRecorder, error) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Idempotency-Key", "k")
		return w, kept.Serve(w, r, "a", 100, handle)
	}
	answers := func(w http.ResponseWriter) error { _, err := io.WriteString(w, "secret"); return err }
	var second sync.WaitGroup
	fails := func(http.ResponseWriter) error {
		second.Go(func() {
			if _, err := serve(answers); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(50 * time.Millisecond) // the second request waits by now; the test passes too if it doesn't
		return io.EOF
	}
	if _, err := serve(fails); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	second.Wait()
	if w, err := serve(fails); err != nil || w.Body.String() != "secret" || w.Header().Get("Idempotent-Replay") != "true" {
		t.Errorf("%v, %q, %v", err, w.Body, w.Header())
	}
	if _, err := kept.lock(name{"a", "/", "other"}); err != nil || len(kept.byKey) != 2 {
		t.Errorf("%v, %d places are taken", err, len(kept.byKey))
	}
}

// One owner can't fill the memory, and keeps others from nothing.
func TestAnswers_OfOneOwner(t *testing.T) {
	var kept Answers
	now := time.Now()
	of := func(owner, key string, at time.Time) error {
		_, err := kept.of(name{owner: owner, key: key}, at)
		return err
	}
	for i := range maxAnswersOf {
		if err := of("a", fmt.Sprint(i), now); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if err := of("a", "0", now); err != nil {
		t.Errorf("a known key: %v", err)
	}
	if err := of("a", "one more", now); !errors.Is(err, ErrTooMany) {
		t.Errorf("one key more: %v", err)
	}
	if err := of("b", "another's", now); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if err := of("a", "later", now.Add(Lifetime+1)); err != nil {
		t.Errorf("later: %v", err)
	}
}
