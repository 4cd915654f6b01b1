package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

func TestDeliversInOrder(t *testing.T) {
	r := newReceiver(t)
	n := open(t, t.TempDir(), r.endpoint("r"))
	n.push(t, "1", "2", "3")
	n.Pulled(Event{Action: Pull, Target: Target{Tag: "p"}})
	eventually(t, "all arrived", func() bool { return r.got() == "1 2 3 p" })
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, id := range r.ids {
		if !uuid.MatchString(id) || seen[id] {
			t.Errorf("ids %v", r.ids)
		}
		seen[id] = true
	}
}

// An endpoint that does not answer, or says no, delays nobody else and no request.
func TestOneDoesNotHoldTheOthers(t *testing.T) {
	good, dead, stuck := newReceiver(t), newReceiver(t), newReceiver(t)
	dead.status.Store(500)
	stuck.stuck.Store(true)
	dir := t.TempDir()
	slow := func(r *receiver, name string) Endpoint { // who waits for it once does so longer than the test may take
		e := r.endpoint(name)
		e.Timeout, e.Backoff = 24*time.Hour, 240*time.Hour
		return e
	}
	n := open(t, dir, slow(dead, "dead"), good.endpoint("good"), slow(stuck, "stuck"))
	var tags []string
	for i := range 50 {
		tags = append(tags, fmt.Sprint(i))
	}
	n.push(t, tags...)
	eventually(t, "the good one has all", func() bool { return good.got() == strings.Join(tags, " ") })
	eventually(t, "those of the others wait", func() bool { return waiting(t, dir) == 100 })
	eventually(t, "both were tried", func() bool { return dead.tries.Load() > 0 && stuck.tries.Load() > 0 })
	stuck.stuck.Store(false)
	eventually(t, "the one that was stuck has all", func() bool { return stuck.got() == strings.Join(tags, " ") })
	n.end(t)
	dead.status.Store(200)
	open(t, dir, dead.endpoint("dead"), good.endpoint("good"), stuck.endpoint("stuck"))
	eventually(t, "the dead one has all, too", func() bool { return dead.got() == strings.Join(tags, " ") })
	dead.mu.Lock()
	defer dead.mu.Unlock()
	if first := dead.tried[0]; dead.tried[1] != first || dead.ids[0] != first {
		t.Error("the id changed between tries")
	}
}

// Failures are logged once, not for each try, and the end of them too.
func TestSaysWhatChanges(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(503)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it was tried often", func() bool { return r.tries.Load() > 6 })
	if n.logs.FilterMessageSnippet("takes no events").Len() != 1 {
		t.Errorf("log: %v", n.logs.All())
	}
	reports, err := Read(dir)
	if err != nil || len(reports) != 1 {
		t.Fatal(reports, err)
	}
	got := reports[0]
	if got.Endpoint != "r" || !got.Serving || got.Changes != 1 || got.Failures < 5 || got.Status != 503 || got.Error != "answered 503 Service Unavailable" ||
		got.Next.Before(got.At) || got.First.Tag != "1" || got.First.Repository != "a" || time.Since(got.Oldest) > time.Minute {
		t.Errorf("%+v", got)
	}
	r.status.Store(200)
	eventually(t, "it recovers", func() bool { return n.logs.FilterMessageSnippet("takes events again").Len() == 1 })
	if reports, _ = Read(dir); reports[0].Failures != 0 || reports[0].Changes != 0 || reports[0].LastSent.IsZero() {
		t.Errorf("%+v", reports[0])
	}
}

// What Changed has taken is told after the process was killed, under the same id.
func TestKilled(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	n.push(t, "1", "2", "3")
	n.Pulled(Event{Action: Pull, Target: Target{Tag: "p"}})
	eventually(t, "the pull is written", func() bool { return waiting(t, dir) == 4 })
	eventually(t, "it was tried", func() bool { return r.tries.Load() > 0 })
	n.kill(t)
	r.status.Store(200)
	n = open(t, dir, r.endpoint("r"))
	eventually(t, "all arrived", func() bool { return r.got() == "1 2 3 p" })
	r.mu.Lock()
	if r.tried[0] != r.ids[0] {
		t.Error("the id is another one after the restart")
	}
	r.mu.Unlock()
	n.end(t)
	if homes, _ := homes(dir); len(homes) != 1 {
		t.Errorf("homes: %v", homes)
	}
}

// A process that lives takes over what another has left behind.
func TestAdopts(t *testing.T) {
	r, s := newReceiver(t), newReceiver(t)
	r.status.Store(500)
	s.status.Store(500)
	dir := t.TempDir()
	one := open(t, dir, r.endpoint("r"), s.endpoint("gone"))
	two := open(t, dir, r.endpoint("r"))
	one.push(t, "1", "2")
	one.Pulled(Event{Action: Pull, Target: Target{Tag: "p"}})
	eventually(t, "the pulls are written", func() bool { return waiting(t, dir) == 6 })
	two.adopt()
	if two.logs.FilterMessageSnippet("adopted").Len() != 0 {
		t.Fatalf("the home of one who lives was taken: %v", two.logs.All())
	}
	one.kill(t)
	two.push(t, "3")
	two.adopt()
	two.adopt()
	if two.logs.FilterMessageSnippet("adopted the queues").FilterField(zap.Int("events", 3)).Len() != 1 {
		t.Errorf("log: %v", two.logs.All())
	}
	if got := two.endpoints[0].queue.backlog(); got.changes != 3 || got.pulls != 1 {
		t.Errorf("backlog %+v", got)
	}
	r.status.Store(200)
	eventually(t, "all arrived", func() bool { return len(strings.Fields(r.got())) == 4 })
	if got := strings.Fields(r.got()); slices.Index(got, "1") > slices.Index(got, "2") {
		t.Errorf("order: %v", got)
	}
	eventually(t, "the queue of one is let go of", func() bool { reports, _ := Read(dir); return len(reports) == 2 })
	two.adopt() // is not tempted again
	two.warnUnknown()
	if two.logs.FilterMessageSnippet("not configured").FilterField(zap.Int("events", 3)).Len() != 1 || waiting(t, dir) != 3 {
		t.Errorf("what waits for an endpoint that two does not have: %d, %v", waiting(t, dir), two.logs.All())
	}
	two.end(t)
	// Whoever has that endpoint sends it.
	s.status.Store(200)
	three := open(t, dir, s.endpoint("gone"))
	eventually(t, "all arrived", func() bool { return s.got() == "1 2 p" })
	three.adopt()
	three.adopt()
	three.end(t)
	// Homes are used again, so there are only as many as there were processes at a time.
	open(t, dir, r.endpoint("r"))
	open(t, dir, r.endpoint("r"))
	if names, _ := homes(dir); len(names) != 2 {
		t.Errorf("homes: %v", names)
	}
}

// A process that is killed before it has sent what it has taken over leaves the rest
// to the next one.
func TestAdopts_KilledHalfway(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	one, two := open(t, dir, r.endpoint("r")), open(t, dir, r.endpoint("r"))
	one.push(t, "1", "2", "3", "4")
	one.kill(t)
	r.held.Store("3")
	r.status.Store(200)
	two.adopt()
	eventually(t, "half of it arrived", func() bool { return r.got() == "1 2" })
	two.kill(t)
	r.held.Store("")
	three := open(t, dir, r.endpoint("r"))
	three.adopt()
	eventually(t, "all arrived", func() bool { return strings.HasSuffix(r.got(), "3 4") })
	eventually(t, "nothing waits", func() bool { return waiting(t, dir) == 0 })
}

// Pushes go on while the queue of another process is adopted and sent.
func TestAdopts_BesidePushes(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	const each = 300
	one, two := open(t, dir, r.endpoint("r")), open(t, dir, r.endpoint("r"))
	for range each {
		one.push(t, "one")
	}
	one.kill(t)
	q := two.endpoints[0].queue
	q.mu.Lock()
	q.changes.limit = 3000 // a new file for every few events
	q.mu.Unlock()
	r.status.Store(200)
	var group sync.WaitGroup
	group.Go(two.adopt)
	for range each {
		two.push(t, "two")
	}
	group.Wait()
	eventually(t, "all arrived", func() bool { return len(strings.Fields(r.got())) == 2*each })
	if two.logs.FilterLevelExact(zap.ErrorLevel).Len() > 0 {
		t.Errorf("log: %v", two.logs.All())
	}
}

func TestIgnore(t *testing.T) {
	r := newReceiver(t)
	e := r.endpoint("r")
	e.Ignore = Ignore{MediaTypes: []string{"application/octet-stream"}, Actions: []Action{Pull}}
	n := open(t, t.TempDir(), e)
	for _, c := range []struct {
		action    Action
		mediaType string
		want      bool
	}{
		{Push, "application/octet-stream", false},
		{Pull, "m", false},
		{Push, "m", true},
		{Delete, "", true},
	} {
		if got := n.Wants(c.action, c.mediaType); got != c.want {
			t.Errorf("%s of %s: %v", c.action, c.mediaType, got)
		}
		target := Target{MediaType: c.mediaType, Tag: oci.Tag(c.action)}
		if n.Pulled(Event{Action: Pull, Target: target}); c.action != Pull {
			if err := n.Changed(Event{Action: c.action, Target: target}); err != nil {
				t.Error(err)
			}
		}
	}
	eventually(t, "the others arrived", func() bool { return r.got() == "push delete" })
	var none *Notifier
	if none.Wants(Push, "m") || none.Changed(Event{}) != nil || none.Ready() != nil || none.Close() != nil {
		t.Error("nil takes something")
	}
	none.Pulled(Event{})
}

// In memory nothing outlives the process, so the end waits a little.
func TestMemory(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	n := open(t, "", r.endpoint("r"))
	n.push(t, "1", "2")
	eventually(t, "it was tried", func() bool { return r.tries.Load() > 0 })
	time.AfterFunc(100*time.Millisecond, func() { r.status.Store(200) })
	n.end(t)
	if r.got() != "1 2" || n.logs.FilterMessageSnippet("lost").Len() != 0 {
		t.Errorf("%q, %v", r.got(), n.logs.All())
	}
}

// A delivery under way at the end may finish; one that hangs is cut off, and is
// made again at the next start.
func TestEnd(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.stuck.Store(true)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it is under way", func() bool { return r.tries.Load() > 0 })
	began := time.Now()
	n.end(t)
	if took := time.Since(began); took > cutDelivery+time.Second {
		t.Errorf("the end took %v", took)
	}
	r.stuck.Store(false)
	open(t, dir, r.endpoint("r"))
	eventually(t, "it arrived", func() bool { return strings.HasPrefix(r.got(), "1") }) // the one cut off may have, too
}

func TestAfterTheEnd(t *testing.T) {
	n := open(t, t.TempDir(), newReceiver(t).endpoint("r"))
	late := n.Notifier
	n.end(t)
	if err := late.Changed(Event{Action: Push}); err == nil {
		t.Error("it is taken after the end")
	}
	late.Pulled(Event{Action: Pull})
}

func TestRetryAndDrop(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	e := r.endpoint("r/../x")
	e.Threshold, e.Backoff = 1, time.Hour
	n := open(t, dir, e)
	n.push(t, "1", "2")
	eventually(t, "it was tried", func() bool { return r.tries.Load() == 1 })
	if asked, err := Retry(t.Context(), dir, e.Name); asked != 2 || err != nil {
		t.Fatal(asked, err)
	}
	eventually(t, "it was tried again", func() bool { return r.tries.Load() == 2 })
	if asked, err := Drop(t.Context(), dir, e.Name); asked != 2 || err != nil || waiting(t, dir) != 0 {
		t.Fatal(asked, err, waiting(t, dir))
	}
	n.push(t, "3")
	r.status.Store(200)
	Retry(t.Context(), dir, e.Name)
	eventually(t, "the next arrives", func() bool { return r.got() == "3" })
	if asked, err := Retry(t.Context(), dir, "nobody"); asked != 0 || err != nil {
		t.Error(asked, err)
	}
	r.status.Store(500)
	n.push(t, "4")
	n.kill(t)
	if asked, err := Retry(t.Context(), dir, e.Name); asked != 0 || err != nil {
		t.Error(asked, err)
	}
	if asked, err := Drop(t.Context(), dir, e.Name); asked != 1 || err != nil || waiting(t, dir) != 0 {
		t.Error(asked, err, waiting(t, dir))
	}
}

// Who asks is told when the process could not do it, and what could not be done is
// not tried for ever.
func TestRequestThatFails(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	dir := t.TempDir()
	n := open(t, dir, r.endpoint("r"))
	other := endpointDir(n.home.dir, "other") // is not configured, and no queue
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, changesDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := askLiving(t.Context(), filepath.Join(other, opDrop), time.Now()); err == nil || !strings.Contains(err.Error(), "its log says why") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(other, opDrop+"*")); len(left) != 0 || n.logs.FilterMessageSnippet("cannot do what").Len() != 1 {
		t.Error(left, n.logs.All())
	}
	if err := askLiving(t.Context(), filepath.Join(other, strings.Repeat("x", 300)), time.Now()); err == nil {
		t.Error("it is asked for without a file")
	}
}

// Several may ask at the same time; each is obeyed.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	a, b := r.endpoint("a"), r.endpoint("b")
	n := open(t, dir, a, b)
	n.push(t, "1")
	var group sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		group.Go(func() {
			if asked, err := Drop(t.Context(), dir, name); asked != 1 || err != nil {
				t.Error(name, asked, err)
			}
		})
	}
	group.Wait()
	if left := waiting(t, dir); left != 0 {
		t.Error(left, "are left")
	}
}

// One event that the endpoint cannot digest is given up once another was taken;
// an endpoint that refuses everything loses nothing.
func TestRefusal(t *testing.T) {
	r := newReceiver(t)
	r.bad.Store("bad")
	registry := prometheus.NewRegistry()
	n := openWith(t, Options{Endpoints: []Endpoint{r.endpoint("r")}, Directory: t.TempDir(), Metrics: NewMetrics(registry)})
	n.push(t, "1", "bad")
	eventually(t, "it was tried often", func() bool { return r.tries.Load() > 6 })
	if n.endpoints[0].queue.backlog().events() != 1 {
		t.Error("it is given up without proof")
	}
	n.push(t, "2", "3")
	eventually(t, "the others arrived", func() bool { return r.got() == "1 2 3" })
	eventually(t, "nothing waits", func() bool { return n.endpoints[0].queue.backlog().events() == 0 })
	lost := n.logs.FilterMessageSnippet("is given up").All()
	if len(lost) != 1 || lost[0].ContextMap()["tag"] != "bad" || testutil.ToFloat64(n.opts.Metrics.dropped.WithLabelValues("r", "refused")) != 1 {
		t.Errorf("log: %v", lost)
	}
	r.status.Store(400)
	n.push(t, "4", "5")
	before := r.tries.Load()
	eventually(t, "it was tried often", func() bool { return r.tries.Load() > before+8 })
	r.status.Store(200)
	eventually(t, "all arrived", func() bool { return strings.HasPrefix(r.got(), "1 2 3 4 5") || strings.HasPrefix(r.got(), "1 2 3 5 4") })
	if len(n.logs.FilterMessageSnippet("is given up").All()) != 1 {
		t.Error("events were given up because of the endpoint")
	}
}

func TestMetrics(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(418)
	registry := prometheus.NewRegistry()
	e := r.endpoint("r")
	e.Threshold, e.Backoff = 1, time.Hour
	n := openWith(t, Options{Endpoints: []Endpoint{e}, Directory: t.TempDir(), Metrics: NewMetrics(registry)})
	n.push(t, "1", "2")
	eventually(t, "it was tried", func() bool {
		return testutil.CollectAndCount(n.opts.Metrics.status) == 1
	})
	want := `
# HELP registry_notifications_events_total Events put into queues (Events), deliveries that succeeded (Successes), were refused (Failures) or had no answer (Errors).
# TYPE registry_notifications_events_total counter
registry_notifications_events_total{endpoint="r",type="Errors"} 0
registry_notifications_events_total{endpoint="r",type="Events"} 2
registry_notifications_events_total{endpoint="r",type="Failures"} 1
registry_notifications_events_total{endpoint="r",type="Successes"} 0
# HELP registry_notifications_pending_total Events that wait.
# TYPE registry_notifications_pending_total gauge
registry_notifications_pending_total{endpoint="r"} 2
# HELP registry_notifications_status_total Answers of endpoints by status.
# TYPE registry_notifications_status_total counter
registry_notifications_status_total{code="418 I'm a teapot",endpoint="r"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "registry_notifications_events_total", "registry_notifications_pending_total", "registry_notifications_status_total"); err != nil {
		t.Error(err)
	}
}

// A directory that cannot be one is an error that names it.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	_, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://x"}}, Directory: file + "/queue", MaxSize: 1 << 20, Version: V1, Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}
