package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// replicas are three registries behind nginx, which share a bucket and a Redis.
type replicas struct {
	t       *testing.T
	store   *relay // the way to the bucket
	front   string // nginx
	configs []string
	addrs   []string
	running []*programtest.Process
	load    *gcLoad
}

const balancerConfig = `daemon off; user root; pid nginx.pid; error_log stderr crit; worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream replicas { %SERVERS% }
  server {
    listen %ADDR%;
    client_max_body_size 0;
    location / {
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_connect_timeout 2s;
      proxy_read_timeout 5s;
      proxy_next_upstream off; # a deletion that nginx repeats would be answered with 404
    }
  }
}
`

func startReplicas(t *testing.T, n int) *replicas {
	t.Helper()
	server, _ := minioBucket(t)
	r := &replicas{t: t, store: newRelay(t, server.Addr), front: programtest.FreeAddr(t)}
	redis := programtest.FreeAddr(t)
	startRedis(t, redis)
	servers := ""
	for range n {
		addr := programtest.FreeAddr(t)
		r.addrs = append(r.addrs, addr)
		r.configs = append(r.configs, onS3(t, addr, "http://"+r.store.addr, "redis: {addr: \""+redis+"\"}\n"))
		servers += "server " + addr + " max_fails=2 fail_timeout=1s; "
	}
	for i := range n {
		r.running = append(r.running, r.launch(i))
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	writeFile(t, config, []byte(strings.NewReplacer("%ADDR%", r.front, "%SERVERS%", servers).Replace(balancerConfig)))
	start(t, r.front, exec.Command(programtest.Tool(t, "nginx"), "-p", dir, "-e", "stderr", "-c", config))
	r.load = newGCLoad(t, 0, 0, false)
	r.load.lossy, r.load.addrs = true, []string{r.front}
	return r
}

// launch starts a replica and waits until it serves.
func (r *replicas) launch(i int) *programtest.Process {
	r.t.Helper()
	p := programtest.Launch(r.t, r.command(r.configs[i], "serve"))
	if err := p.WaitFor("http://"+r.addrs[i]+"/v2/", 60*time.Second); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *replicas) command(config string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), binary, append(args[:1:1], append([]string{config}, args[1:]...)...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + r.t.TempDir(), "REGISTRY_STORAGE_CACHE_BLOBDESCRIPTOR=redis", "REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING_ENABLED=false"}
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
	r.recovers("the start")
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

	r.store.cut(true)
	time.Sleep(away)
	r.store.cut(false)
	r.recovers("the bucket was away")

	for i, p := range r.running {
		if err := p.Stop(r.t, 30*time.Second); err != nil {
			r.t.Errorf("replica %d ended with %v", i, err)
		}
		r.running[i] = r.launch(i)
	}
	r.recovers("all were restarted")
}

// collect frees garbage again and again, beside the replicas.
func (r *replicas) collect(ctx context.Context) {
	for ctx.Err() == nil {
		r.collectOnce()
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (r *replicas) collectOnce() {
	out, err := r.command(r.configs[2], "garbage-collect", "-m", "--json", "--age", "0s").Output()
	var report struct{ Blobs struct{ Freed int64 } }
	if err == nil && json.Unmarshal(out, &report) == nil {
		r.load.collections.Add(1)
		r.load.freed.Add(report.Blobs.Freed)
	}
}

// collectLast frees what is left. A collection that failed when the bucket was away holds its lock until its lease
// and its last requests have run out.
func (r *replicas) collectLast() {
	r.t.Helper()
	before := r.load.collections.Load()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if r.collectOnce(); r.load.collections.Load() > before {
			return
		}
	}
	r.t.Error("no collection succeeds within two minutes after the load")
}

// Pushes, pulls, deletions and collections go on through nginx, round robin, while one of three
// replicas is killed, one is frozen until its lease has run out, the bucket is away for 20 seconds and
// all are restarted. Whatever was acknowledged is there afterwards, at each replica, and what was
// deleted is freed. `make soak` repeats it for minutes.
func TestS3_ReplicasUnderFaults(t *testing.T) {
	t.Parallel() // it waits most of its time
	r := startReplicas(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for _, w := range r.load.writers {
		all.Go(func() { w.work(ctx) })
	}
	all.Go(func() { r.collect(ctx) })
	begun := time.Now()
	seconds, _ := strconv.Atoi(os.Getenv("SLIPWAY_SOAK_SECONDS"))
	for rounds := 0; rounds == 0 || time.Since(begun) < time.Duration(seconds)*time.Second && !t.Failed(); rounds++ {
		r.faults(20 * time.Second)
	}
	cancel()
	all.Wait()
	l := r.load
	l.lossy = false
	r.collectLast()
	for _, addr := range r.addrs {
		for _, w := range l.writers {
			l.addrs = []string{addr}
			w.verify()
		}
	}
	t.Logf("%d pushes, %d deletions, %d pulls, %d without an answer, %d asked again, %d collections freed %d blobs",
		l.pushes.Load(), l.deletions.Load(), l.pulls.Load(), l.lost.Load(), l.again.Load(), l.collections.Load(), l.freed.Load())
	if l.freed.Load() == 0 {
		t.Error("nothing was freed")
	}
}

// Of two replicas that tag at the same moment one wins, and both manifests are stored; of an
// immutable tag the first one stays, whoever asks.
func TestS3_ReplicasTagAtTheSameMoment(t *testing.T) {
	server, _ := minioBucket(t)
	immutable := "REGISTRY_STORAGE_MAINTENANCE_IMMUTABLE=[{repositories: ['**'], tags: ['v\\d+']}]"
	addrs := []string{startOnS3(t, server.URL(), "", immutable).addr, startOnS3(t, server.URL(), "", immutable).addr}
	images := []*image{newImage(t, 81, 1, 1000), newImage(t, 82, 1, 1000)}
	for i, img := range images {
		img.push(t, addrs[i], "race", "first"+strconv.Itoa(i))
	}
	for round := range 10 {
		for _, kind := range []string{"moving", "v"} {
			tag := fmt.Sprint(kind, round)
			status := make([]int, 2)
			var both sync.WaitGroup
			for i, img := range images {
				both.Go(func() {
					resp, _ := fetch(t, "PUT", "http://"+addrs[i]+"/v2/race/manifests/"+tag, http.Header{"Content-Type": {img.mediaType(t)}}, bytes.NewReader(img.blobs[img.manifest]))
					status[i] = resp.StatusCode
				})
			}
			both.Wait()
			_, got := fetch(t, "GET", "http://"+addrs[0]+"/v2/race/manifests/"+tag, acceptAll, nil)
			_, same := fetch(t, "GET", "http://"+addrs[1]+"/v2/race/manifests/"+tag, acceptAll, nil)
			winner := digestOf(got)
			if !bytes.Equal(got, same) || winner != images[0].manifest && winner != images[1].manifest {
				t.Fatalf("%s: the replicas answer %q and %q", tag, got, same)
			}
			for i, img := range images {
				want := 201
				if kind == "v" && img.manifest != winner {
					want = 409
				}
				if status[i] != want {
					t.Errorf("%s: replica %d answered %d, want %d; the tag is %s", tag, i, status[i], want, winner)
				}
				if resp, _ := fetch(t, "GET", "http://"+addrs[1-i]+"/v2/race/manifests/"+img.manifest, acceptAll, nil); resp.StatusCode != 200 {
					t.Errorf("%s: manifest %d: %s", tag, i, resp.Status)
				}
			}
		}
	}
}

// Events that a replica had not sent when it was killed are sent by another one that shares the
// directory of the queues.
func TestS3_EventsOfADeadReplica(t *testing.T) {
	t.Parallel() // it waits most of its time
	server, _ := minioBucket(t)
	w := newWatcher(t)
	w.status.Store(500)
	env := notifying(w, "")
	queue := "notifications: {queue: {directory: " + t.TempDir() + "}}\n"
	dying, living := startOnS3(t, server.URL(), queue, env...), startOnS3(t, server.URL(), queue, env...)
	newImage(t, 91, 1, 1000).push(t, dying.addr, "events", "v1")
	newImage(t, 92, 1, 1000).push(t, living.addr, "events", "v2")
	dying.Kill()
	w.status.Store(200)
	var tags []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if tags = w.tags(); slices.Contains(tags, "v1") && slices.Contains(tags, "v2") {
			return
		}
	}
	t.Errorf("events of the tags %q have come, want v1 and v2\n%s", tags, programtest.Tail(living.Output()))
}
