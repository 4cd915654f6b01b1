package notify

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

func TestDeliversInOrder(t *testing.T) {
	r := newReceiver(t)
	n := start(t, t.TempDir(), r.endpoint("r"))
	n.push(t, "1", "2", "3")
	eventually(t, "the pushes arrived", func() bool { return r.got() == "1 2 3" })
	n.Pulled(Event{Action: Pull, Target: Target{Tag: "p"}})
	eventually(t, "the pull arrived", func() bool { return r.got() == "1 2 3 p" })
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

// Delivering a pull writes nothing to disk.
func TestPullsStayInMemory(t *testing.T) {
	r := newReceiver(t)
	n := start(t, t.TempDir(), r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "the push arrived and left the file", func() bool { return r.got() == "1" && n.endpoints[0].backlog().Changes == 0 })
	writes := func() int64 {
		tx, err := n.file.db.Begin(true) // when no transaction writes any more
		if err != nil {
			t.Fatal(err)
		}
		_ = tx.Rollback()
		time.Sleep(time.Millisecond) // what they wrote is counted a moment later
		stats := n.file.db.Stats()
		return stats.TxStats.GetWrite()
	}
	before := writes()
	n.Pulled(Event{Action: Pull, Target: Target{Tag: "p"}})
	eventually(t, "the pull arrived and left memory", func() bool { return r.got() == "1 p" && n.endpoints[0].backlog().Pulls == 0 })
	n.Pulled(Event{Action: Pull, Target: Target{Tag: "q"}})
	eventually(t, "the second pull arrived", func() bool { return r.got() == "1 p q" })
	if after := writes(); after != before {
		t.Errorf("%d writes for pulls", after-before)
	}
}

// An endpoint that hangs or refuses delays neither the others nor pushes.
func TestEndpointsAreIndependent(t *testing.T) {
	good, dead, stuck := newReceiver(t), newReceiver(t), newReceiver(t)
	dead.status.Store(500)
	stuck.stuck.Store(true)
	dir := t.TempDir()
	slow := func(r *receiver, name string) Endpoint { // longer than the test may take
		e := r.endpoint(name)
		e.Timeout, e.Backoff = 24*time.Hour, 240*time.Hour
		return e
	}
	n := start(t, dir, slow(dead, "dead"), good.endpoint("good"), slow(stuck, "stuck"))
	var tags []string
	for i := range 50 {
		tags = append(tags, fmt.Sprint(i))
	}
	n.push(t, tags...)
	all := strings.Join(tags, " ")
	eventually(t, "the good one has all", func() bool { return good.got() == all })
	eventually(t, "the others' events wait", func() bool { return waiting(t, dir) == 100 })
	eventually(t, "both were tried", func() bool { return dead.tries.Load() > 0 && stuck.tries.Load() > 0 })
	stuck.stuck.Store(false)
	eventually(t, "the one that hung has all", func() bool { return stuck.got() == all })
	n.end(t)
	dead.status.Store(200)
	start(t, dir, dead.endpoint("dead"), good.endpoint("good"), stuck.endpoint("stuck"))
	eventually(t, "the dead one has all", func() bool { return dead.got() == all })
	dead.mu.Lock()
	defer dead.mu.Unlock()
	if first := dead.tried[0]; dead.tried[1] != first || dead.ids[0] != first {
		t.Error("the id changed between tries")
	}
}

// An endpoint that refuses an event keeps getting it: events are lost neither to a
// misconfigured proxy nor to a strict receiver.
func TestRefusedEventsWait(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(400)
	n := start(t, t.TempDir(), r.endpoint("r"))
	n.push(t, "1", "2")
	eventually(t, "it was tried often", func() bool { return r.tries.Load() > 6 })
	r.status.Store(200)
	eventually(t, "both arrived", func() bool { return r.got() == "1 2" })
}

// The log has one line when an endpoint begins to fail and one when it recovers;
// reports have the details.
func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(503)
	dir := t.TempDir()
	n := start(t, dir, r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it was tried often", func() bool { return r.tries.Load() > 6 })
	if n.logs.FilterMessageSnippet("takes no events").Len() != 1 {
		t.Errorf("log: %v", n.logs.All())
	}
	reports := read(t, dir)
	if len(reports) != 1 {
		t.Fatal(reports)
	}
	got := reports[0]
	if got.Endpoint != "r" || !got.Serving || got.Changes != 1 || got.Failures < 5 || got.Status != 503 || got.Error != "answered 503 Service Unavailable" ||
		got.Next.Before(got.At) || got.First.Tag != "1" || got.First.Repository != "a" || time.Since(got.First.Time) > time.Minute {
		t.Errorf("%+v", got)
	}
	r.status.Store(200)
	eventually(t, "it recovers", func() bool { return n.logs.FilterMessageSnippet("takes events again").Len() == 1 })
	eventually(t, "nothing waits", func() bool { return waiting(t, dir) == 0 })
	if got := read(t, dir)[0]; got.Failures != 0 || got.LastSent.IsZero() {
		t.Errorf("%+v", got)
	}
}

// What waits at the end is sent by the next process, under the same ids.
func TestRestart(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	n := start(t, dir, r.endpoint("r"))
	n.push(t, "1", "2", "3")
	eventually(t, "it was tried", func() bool { return r.tries.Load() > 0 })
	n.end(t)
	if reports := read(t, dir); len(reports) != 1 || reports[0].Serving || reports[0].Changes != 3 || reports[0].First.Tag != "1" {
		t.Errorf("%+v", reports)
	}
	r.status.Store(200)
	start(t, dir, r.endpoint("r"))
	eventually(t, "all arrived", func() bool { return r.got() == "1 2 3" })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried[0] != r.ids[0] {
		t.Error("the id is another one after the restart")
	}
}

// Processes that share a directory have a file each. What one leaves there is sent
// by the next one that starts.
func TestSharedDirectory(t *testing.T) {
	r, gone := newReceiver(t), newReceiver(t)
	r.status.Store(500)
	gone.status.Store(500)
	dir := t.TempDir()
	one, two := start(t, dir, r.endpoint("r")), start(t, dir, r.endpoint("r"), gone.endpoint("gone"))
	one.push(t, "1")
	two.push(t, "2", "3")
	if got := len(read(t, dir)); got != 3 {
		t.Errorf("%d reports", got)
	}
	two.end(t)
	one.end(t)
	r.status.Store(200)
	three := start(t, dir, r.endpoint("r"))
	eventually(t, "all arrived", func() bool { return r.got() == "1 2 3" })
	if three.logs.FilterMessageSnippet("took over").FilterField(zap.Int("events", 4)).Len() != 1 {
		t.Errorf("log: %v", three.logs.All())
	}
	if three.logs.FilterMessageSnippet("not configured").FilterField(zap.Int("events", 2)).Len() != 1 {
		t.Errorf("log: %v", three.logs.All())
	}
	eventually(t, "the events of the unknown endpoint are left", func() bool { return waiting(t, dir) == 2 })
}

func TestIgnore(t *testing.T) {
	r := newReceiver(t)
	e := r.endpoint("r")
	e.Ignore = Ignore{MediaTypes: []string{"application/octet-stream"}, Actions: []Action{Pull}}
	n := start(t, t.TempDir(), e)
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
		t.Error("a nil Notifier does something")
	}
	none.Pulled(Event{})
}

// Without a directory the end waits for events in memory.
func TestMemory(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	n := start(t, "", r.endpoint("r"))
	n.push(t, "1", "2")
	eventually(t, "it was tried", func() bool { return r.tries.Load() > 0 })
	time.AfterFunc(100*time.Millisecond, func() { r.status.Store(200) })
	n.end(t)
	if r.got() != "1 2" || n.logs.FilterMessageSnippet("lost").Len() != 0 {
		t.Errorf("%q, %v", r.got(), n.logs.All())
	}
}

// A delivery under way at the end may finish; one that hangs is cut off, and made
// again after the next start.
func TestEnd(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.stuck.Store(true)
	dir := t.TempDir()
	n := start(t, dir, r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it is under way", func() bool { return r.tries.Load() > 0 })
	late := n.Notifier
	n.end(t)
	if err := late.Changed(Event{Action: Push}); err == nil {
		t.Error("it is stored after the end")
	}
	r.stuck.Store(false)
	start(t, dir, r.endpoint("r"))
	eventually(t, "it arrived", func() bool { return strings.HasPrefix(r.got(), "1") }) // perhaps twice
}

// Events are dropped beside the registry, and without one.
func TestDrop(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	e := r.endpoint("r/../x")
	n := start(t, dir, e, r.endpoint("other"))
	n.push(t, "1", "2")
	n.Pulled(Event{Action: Pull})
	if got, err := Drop(t.Context(), dir, e.Name); got != 3 || err != nil {
		t.Fatal(got, err)
	}
	if got, err := Drop(t.Context(), dir, "nobody"); got != 0 || err != nil {
		t.Error(got, err)
	}
	n.push(t, "3")
	if left := read(t, dir); left[0].Changes != 1 || left[1].Changes != 3 || left[1].Pulls != 1 {
		t.Errorf("%+v", left)
	}
	n.end(t)
	if got, err := Drop(t.Context(), dir, e.Name); got != 1 || err != nil || waiting(t, dir) != 3 {
		t.Error(got, err)
	}
	r.status.Store(200)
	n = start(t, dir, e)
	n.push(t, "4")
	eventually(t, "the next event arrives", func() bool { return r.got() == "4" })
}

// A file that is in use on another machine cannot be asked for; the others are
// still reported.
func TestReadWithoutAnswer(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(500)
	dir := t.TempDir()
	one, two := start(t, dir, r.endpoint("r")), start(t, dir, r.endpoint("r"))
	one.admin.Close()
	two.push(t, "1")
	reports, err := Read(t.Context(), dir)
	if len(reports) != 1 || reports[0].Changes != 1 || err == nil || !strings.Contains(err.Error(), "queue-0.db: another process has it open") {
		t.Errorf("%+v, %v", reports, err)
	}
}

// The socket lets nobody in who may not open the queue, and one that a killed
// process left is replaced.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue-0.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	n := start(t, dir, newReceiver(t).endpoint("r"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	read(t, dir)
	n.end(t)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// After an event could not be stored, changes are refused until one can be; the
// event of the change that was made is sent.
func TestQueueCannotBeWritten(t *testing.T) {
	r := newReceiver(t)
	n := start(t, t.TempDir(), r.endpoint("r"))
	n.push(t, "1")
	eventually(t, "it arrived", func() bool { return r.got() == "1" })
	restore := n.file.limit(t)
	if err := n.Changed(Event{Action: Push, Target: Target{Tag: oci.Tag(strings.Repeat("x", 1<<20))}}); err == nil {
		t.Fatal("it is stored without room")
	}
	if n.Ready() == nil {
		t.Error("it is ready without room")
	}
	restore()
	if err := n.Ready(); err != nil {
		t.Error(err)
	}
	n.push(t, "3")
	eventually(t, "all arrived", func() bool { return strings.HasSuffix(r.got(), "3") || strings.Contains(r.got(), "3 x") })
	eventually(t, "nothing waits", func() bool { return n.endpoints[0].backlog().First == nil })
	if !strings.Contains(r.got(), "xxx") {
		t.Error("the event of the change that was made is lost")
	}
	if n.logs.FilterMessageSnippet("cannot store events").Len() != 1 || n.logs.FilterMessageSnippet("can be stored again").Len() != 1 {
		t.Errorf("log: %v", n.logs.All())
	}
}

// A change whose event had no room on the disk, while its receiver was away, comes before those that were made later.
func TestQueueCannotBeWritten_Order(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(http.StatusServiceUnavailable)
	n := startWith(t, Options{Endpoints: []Endpoint{r.endpoint("r")}, Directory: t.TempDir(), MaxSize: 4 << 20})
	n.push(t, "1")
	restore := n.file.limit(t)
	long := strings.Repeat("x", 1<<20)
	if err := n.Changed(Event{Action: Push, Target: Target{Tag: oci.Tag(long)}}); err == nil {
		t.Fatal("it is stored without room")
	}
	restore()
	n.push(t, "3", "4")
	r.status.Store(http.StatusOK)
	eventually(t, "all arrived", func() bool { return strings.HasSuffix(r.got(), "4") })
	if got := strings.ReplaceAll(r.got(), long, "2"); got != "1 2 3 4" {
		t.Errorf("%.100s arrived", got)
	}
}

// Pulls in memory are bounded, and the oldest go first.
func TestPullsAreBounded(t *testing.T) {
	r := newReceiver(t)
	r.stuck.Store(true)
	registry := prometheus.NewRegistry()
	n := startWith(t, Options{Endpoints: []Endpoint{r.endpoint("r")}, Directory: t.TempDir(), Metrics: NewMetrics(registry)})
	const pulls, each = 100, 100 << 10
	n.endpoints[0].remember(&event{body: []byte("{}")}) // a change, which stays
	for i := range pulls {
		n.Pulled(Event{Action: Pull, Target: Target{Tag: oci.Tag(fmt.Sprint(i, strings.Repeat(".", each)))}})
	}
	b := n.endpoints[0].backlog()
	first := summary(n.endpoints[0].memory[1].body)
	if b.Changes != 1 || b.Bytes > maxMemory || b.Bytes < maxMemory-2*each || !strings.HasPrefix(string(first.Tag), fmt.Sprint(pulls-b.Pulls)) {
		t.Errorf("%+v", b)
	}
	if got := testutil.ToFloat64(n.opts.Metrics.dropped.WithLabelValues("r", "pull")); int(got) != pulls-b.Pulls {
		t.Errorf("%v are counted as dropped, %d are left", got, b.Pulls)
	}
}

// The oldest changes go when the queue is full; no push fails.
func TestFullQueue(t *testing.T) {
	for _, kind := range []string{"file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			r := newReceiver(t)
			r.status.Store(500)
			dir := ""
			if kind == "file" {
				dir = t.TempDir()
			}
			n := start(t, dir, r.endpoint("r"))
			const pushes, each = 30, 100 << 10
			for i := range pushes {
				n.push(t, fmt.Sprint(i, strings.Repeat(".", each)))
			}
			b := n.endpoints[0].backlog()
			if b.Bytes > 1<<20 || b.Bytes < 1<<20-2*each || !strings.HasPrefix(string(b.First.Tag), fmt.Sprint(pushes-b.Changes)) {
				t.Errorf("%+v", b)
			}
			if got := testutil.ToFloat64(n.opts.Metrics.dropped.WithLabelValues("r", "change")); int(got) != pushes-b.Changes {
				t.Errorf("%v are counted as dropped, %d are left", got, b.Changes)
			}
			if n.logs.FilterMessageSnippet("is full").Len() != 1 {
				t.Errorf("log: %v", n.logs.All())
			}
			r.status.Store(200)
			eventually(t, "the rest arrived", func() bool { return n.endpoints[0].backlog().First == nil })
		})
	}
}

func TestMetrics(t *testing.T) {
	r := newReceiver(t)
	r.status.Store(418)
	registry := prometheus.NewRegistry()
	e := r.endpoint("r")
	e.Threshold, e.Backoff = 1, time.Hour
	n := startWith(t, Options{Endpoints: []Endpoint{e}, Directory: t.TempDir(), Metrics: NewMetrics(registry)})
	n.push(t, "1", "2")
	eventually(t, "it was tried", func() bool {
		return testutil.CollectAndCount(n.opts.Metrics.status) == 1
	})
	want := `
# HELP registry_notifications_events_total Events queued (Events), and deliveries that succeeded (Successes), were refused (Failures) or had no answer (Errors).
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
