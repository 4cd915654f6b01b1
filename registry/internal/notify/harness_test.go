package notify

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/oci"
)

// receiver is an HTTP server that records the events it took.
type receiver struct {
	*httptest.Server
	status atomic.Int64 // what it answers
	stuck  atomic.Bool  // it does not answer
	tries  atomic.Int64

	mu    sync.Mutex
	tags  []string
	ids   []string
	tried []string // ids, of all tries
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.status.Store(200)
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil || len(e.Events) != 1 {
		w.WriteHeader(400)
		return
	}
	r.tries.Add(1)
	for r.stuck.Load() {
		select {
		case <-req.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
	status := int(r.status.Load())
	r.mu.Lock()
	r.tried = append(r.tried, e.Events[0].ID)
	if status == 200 {
		r.tags = append(r.tags, string(e.Events[0].Target.Tag))
		r.ids = append(r.ids, e.Events[0].ID)
	}
	r.mu.Unlock()
	w.WriteHeader(status)
}

func (r *receiver) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tags, " ")
}

func (r *receiver) endpoint(name string) Endpoint {
	return Endpoint{Name: name, URL: r.URL, Timeout: 5 * time.Second, Threshold: 3, Backoff: 40 * time.Millisecond}
}

type fixture struct {
	*Notifier
	logs *observer.ObservedLogs
}

func start(t *testing.T, dir string, endpoints ...Endpoint) *fixture {
	t.Helper()
	return startWith(t, Options{Endpoints: endpoints, Directory: dir})
}

func startWith(t *testing.T, o Options) *fixture {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.MaxSize, o.Version, o.Log = max(o.MaxSize, 1<<20), V1, zap.New(core)
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{n, logs}
	t.Cleanup(func() { f.end(t) })
	return f
}

// end closes it, once.
func (f *fixture) end(t *testing.T) {
	t.Helper()
	if f.Notifier == nil {
		return
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	f.Notifier = nil
}

func (f *fixture) push(t *testing.T, tags ...string) {
	t.Helper()
	for _, tag := range tags {
		if err := f.Changed(Event{Action: Push, Target: Target{Repository: "a", Tag: oci.Tag(tag), MediaType: "m"}}); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 1000 {
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("timed out before %s", what)
}

// waiting counts the events in the queue of the directory.
func waiting(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, r := range read(t, dir) {
		n += r.Changes + r.Pulls
	}
	return n
}

func read(t *testing.T, dir string) []Report {
	t.Helper()
	reports, err := Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}
