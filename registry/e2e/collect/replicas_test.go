package collect

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// replicas are three registries behind nginx, which share a bucket.
type replicas struct {
	t       *testing.T
	store   *harness.Tunnel // the way to the bucket
	front   string          // nginx
	configs []string
	addrs   []string
	running []*programtest.Process
	load    *gcLoad

	restored      time.Time                 // when the bucket was reachable again
	lastCollected atomic.Pointer[time.Time] // when the last collection that succeeded ended
}

func startReplicas(t *testing.T, n int) *replicas {
	t.Helper()
	server, _ := harness.S3Bucket(t, s3test.MinIO)
	r := &replicas{t: t, store: harness.NewTunnel(t, server.Addr)}
	var servers []string
	for range n {
		addr := programtest.FreeAddr(t)
		r.addrs = append(r.addrs, addr)
		r.configs = append(r.configs, harness.WriteS3Config(t, addr, "http://"+r.store.Addr))
		servers = append(servers, addr+" max_fails=2 fail_timeout=1s")
	}
	for i := range n {
		r.running = append(r.running, r.launch(i))
	}
	// A deletion that nginx repeats would be answered with 404.
	r.front = harness.StartPlainBalancer(t, "proxy_connect_timeout 2s; proxy_read_timeout 5s; proxy_next_upstream off;", servers...)
	r.load = newGCLoad(t, gcLoadOptions{})
	r.load.lossy, r.load.addrs = true, []string{r.front}
	return r
}

// launch starts a replica and waits until it serves.
func (r *replicas) launch(i int) *programtest.Process {
	r.t.Helper()
	p := programtest.Launch(r.t, r.command(context.Background(), r.configs[i], "serve"))
	if err := p.WaitFor("http://"+r.addrs[i]+"/v2/", 60*time.Second); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *replicas) command(ctx context.Context, config string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, harness.Binary, append(args[:1:1], append([]string{config}, args[1:]...)...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + r.t.TempDir(), "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}
	return cmd
}

// recovers fails the test unless pushes, deletions and pulls go on.
func (r *replicas) recovers(after string) {
	r.t.Helper()
	l := r.load
	pushes, deletions, pulls := l.pushes.Load(), l.deletions.Load(), l.pulls.Load()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if l.pushes.Load() >= pushes+6 && l.deletions.Load() > deletions && l.pulls.Load() > pulls {
			return
		}
	}
	r.t.Fatalf("after %s: %d pushes, %d deletions and %d pulls within two minutes", after, l.pushes.Load()-pushes, l.deletions.Load()-deletions, l.pulls.Load()-pulls)
}

// faults does to the replicas what happens to them in a bad night.
func (r *replicas) faults(away time.Duration) {
	r.running[0].Kill()
	r.recovers("a replica was killed")
	r.running[0] = r.launch(0)

	frozen := r.running[1].ID()
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(12 * time.Second) // its lease runs out
	if err := syscall.Kill(frozen, syscall.SIGCONT); err != nil {
		r.t.Fatal(err)
	}
	r.recovers("a replica was frozen")

	r.store.Cut()
	time.Sleep(away)
	r.store.Restore()
	r.restored = time.Now()
	r.recovers("the bucket was away")

	for i, p := range r.running {
		if err := p.Stop(r.t, time.Minute); err != nil {
			r.t.Errorf("replica %d ended with %v", i, err)
		}
		r.running[i] = r.launch(i)
	}
	r.recovers("all were restarted")
}

// collect frees garbage again and again, beside the replicas.
func (r *replicas) collect(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := r.command(ctx, r.configs[2], "garbage-collect", "-m", "--json", "--age", "0s").Output()
		var report struct{ Blobs struct{ Freed int64 } }
		if err == nil && json.Unmarshal(out, &report) == nil {
			r.load.collections.Add(1)
			r.load.freed.Add(report.Blobs.Freed)
			now := time.Now()
			r.lastCollected.Store(&now)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// awaitCollection waits for a collection that succeeds after the bucket was away, and for garbage
// that is freed. A collection that failed meanwhile holds its lock until its lease and its last
// requests have run out.
func (r *replicas) awaitCollection() {
	r.t.Helper()
	for end := time.Now().Add(6 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if last := r.lastCollected.Load(); last != nil && last.After(r.restored) && r.load.freed.Load() > 0 {
			return
		}
	}
	r.t.Errorf("%d blobs are freed by %d collections, none after the faults within six minutes", r.load.freed.Load(), r.load.collections.Load())
}

// Pushes, pulls, deletions and collections go on through nginx, round robin, while one of three
// replicas is killed, one is frozen until its lease has run out, the bucket is away for 20 seconds and
// all are restarted. Whatever was acknowledged is there afterwards, at each replica, and what was
// deleted is freed. `make soak` repeats it for minutes.
func TestFull_S3_ReplicasUnderFaults(t *testing.T) {
	t.Parallel() // it waits most of its time
	r := startReplicas(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers, collector sync.WaitGroup
	for _, w := range r.load.writers {
		writers.Go(func() { w.work(ctx) })
	}
	r.recovers("the start")
	collecting, stopCollecting := context.WithCancel(t.Context())
	defer stopCollecting()
	collector.Go(func() { r.collect(collecting) }) // there is garbage now
	begun := time.Now()
	seconds, _ := strconv.Atoi(os.Getenv("SLIPWAY_SOAK_SECONDS"))
	for rounds := 0; rounds == 0 || time.Since(begun) < time.Duration(seconds)*time.Second && !t.Failed(); rounds++ {
		r.faults(20 * time.Second)
	}
	cancel()
	writers.Wait()
	r.awaitCollection()
	stopCollecting()
	collector.Wait()
	l := r.load
	l.lossy = false
	for _, addr := range r.addrs {
		for _, w := range l.writers {
			l.addrs = []string{addr}
			w.verify()
		}
	}
	t.Logf("%d pushes, %d deletions, %d pulls, %d without an answer, %d asked again, %d collections freed %d blobs",
		l.pushes.Load(), l.deletions.Load(), l.pulls.Load(), l.lost.Load(), l.again.Load(), l.collections.Load(), l.freed.Load())
}
