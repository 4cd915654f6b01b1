package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	client "github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"slipway/shared/programtest"
)

// server is a redis-server that the test may kill, freeze and start again.
type server struct {
	*programtest.Process
	addr string
}

func startServer(t *testing.T, addr string, args ...string) *server {
	t.Helper()
	if addr == "" {
		addr = programtest.FreeAddr(t)
	}
	host, port, _ := net.SplitHostPort(addr)
	args = append([]string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)
	s := &server{programtest.Launch(t, exec.Command(programtest.Tool(t, "redis-server"), args...)), addr}
	c := client.NewClient(&client.Options{Addr: addr})
	defer c.Close()
	for end := time.Now().Add(time.Minute); c.Ping(t.Context()).Err() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("redis-server does not answer\n%s", s.Output())
		}
	}
	return s
}

func newCache(t *testing.T, timeout time.Duration, addrs ...string) *Cache {
	t.Helper()
	o := &client.UniversalOptions{
		Addrs: addrs, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
	}
	c := New(o, zaptest.NewLogger(t), NewMetrics(prometheus.NewRegistry()))
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually repeats put and get until the value comes back.
func eventually(t *testing.T, c *Cache, key, content string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c.Put(key, []byte(content))
		if got, ok := c.Get(t.Context(), key); ok && string(got) == content {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come back", key)
		}
	}
}

func TestCache(t *testing.T) {
	s := startServer(t, "")
	c := newCache(t, time.Minute, s.addr)
	if got, ok := c.Get(t.Context(), "nothing"); ok {
		t.Errorf("got %q of nothing", got)
	}
	eventually(t, c, "key", "content")
	eventually(t, c, "key", "other")
	c.Put("large", make([]byte, MaxValue+1))
	if _, ok := c.Get(t.Context(), "large"); ok {
		t.Error("a value that is too large is kept")
	}
	ttl, err := c.client.TTL(t.Context(), "key").Result()
	if err != nil || ttl <= 0 || ttl > lifetime {
		t.Errorf("lives for %v, %v", ttl, err)
	}
	if err := c.client.Set(t.Context(), "foreign", strings.Repeat("x", MaxValue+1), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(t.Context(), "foreign"); ok {
		t.Error("a value of somebody else that is too large is returned")
	}
	eventually(t, c, "last", "x") // one goroutine writes, so nothing else waits any more
	if err := c.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(t.Context(), "key"); ok {
		t.Error("a value is there after a flush")
	}
	if n := testutil.ToFloat64(c.metrics.errors); n != 0 {
		t.Errorf("%v errors are counted", n)
	}
}

// A server that dies is not there, and is used again once it is.
func TestCache_KilledServer_MissesAndComesBack(t *testing.T) {
	s := startServer(t, "")
	c := newCache(t, 5*time.Second, s.addr)
	eventually(t, c, "key", "content")
	s.Kill()
	for range 3 {
		if _, ok := c.Get(t.Context(), "key"); ok {
			t.Fatal("a dead server answers")
		}
	}
	c.Put("key", []byte("dropped"))
	if testutil.ToFloat64(c.metrics.errors) == 0 {
		t.Error("no error is counted")
	}
	startServer(t, s.addr)
	eventually(t, c, "key", "again")
}

// A server that accepts and says nothing costs one wait in a second, not one in each
// request.
func TestCache_FrozenServer_IsLeftAlone(t *testing.T) {
	s := startServer(t, "")
	c := newCache(t, 50*time.Millisecond, s.addr)
	eventually(t, c, "key", "content")
	if err := syscall.Kill(s.ID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before, start := testutil.ToFloat64(c.metrics.errors), time.Now()
	for i := range 2000 {
		if _, ok := c.Get(t.Context(), "key"); ok {
			t.Fatal("a frozen server answers")
		}
		c.Put(fmt.Sprint(i), []byte("x"))
	}
	asked := testutil.ToFloat64(c.metrics.errors) - before
	// Writes that were queued before the first failure are dropped by it.
	if most := 3 + time.Since(start).Seconds(); asked < 1 || asked > most {
		t.Errorf("it is asked %v times within %v", asked, time.Since(start))
	}
	if err := syscall.Kill(s.ID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "key", "again")
}

// A server without room keeps what it has.
func TestCache_FullServer_StillAnswers(t *testing.T) {
	s := startServer(t, "", "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	c := newCache(t, time.Minute, s.addr)
	eventually(t, c, "first", "content")
	content := bytes.Repeat([]byte("x"), 128<<10)
	for i := 0; testutil.ToFloat64(c.metrics.errors) == 0; i++ {
		if i == 10_000 {
			t.Fatal("the server takes everything")
		}
		c.Put(fmt.Sprint(i), content)
		time.Sleep(time.Millisecond)
	}
	if got, ok := c.Get(t.Context(), "first"); !ok || string(got) != "content" {
		t.Errorf("got %q, %v", got, ok)
	}
}

// Nobody listens: nothing fails, and closing does not wait.
func TestCache_NoServer(t *testing.T) {
	c := newCache(t, 5*time.Second, programtest.FreeAddr(t))
	if _, ok := c.Get(t.Context(), "key"); ok {
		t.Error("nobody answers with something")
	}
	c.Put("key", []byte("x"))
}

// A client that hangs up says nothing about the server.
func TestCache_CanceledLookup_IsNoFailure(t *testing.T) {
	s := startServer(t, "")
	c := newCache(t, time.Minute, s.addr)
	eventually(t, c, "key", "content")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := c.Get(ctx, "key"); ok {
		t.Error("it got an answer")
	}
	if _, ok := c.Get(t.Context(), "key"); !ok {
		t.Error("the next one gets none")
	}
}

// A cluster of one node that has all slots redirects nothing, but is spoken to as one.
func TestCache_Cluster(t *testing.T) {
	_, busA, _ := net.SplitHostPort(programtest.FreeAddr(t)) // the default, 10,000 above the port, may be in use
	_, busB, _ := net.SplitHostPort(programtest.FreeAddr(t))
	a, b := startServer(t, "", "--cluster-enabled", "yes", "--cluster-port", busA), startServer(t, "", "--cluster-enabled", "yes", "--cluster-port", busB)
	one, two := client.NewClient(&client.Options{Addr: a.addr}), client.NewClient(&client.Options{Addr: b.addr})
	defer one.Close()
	defer two.Close()
	host, port, _ := net.SplitHostPort(b.addr)
	for _, err := range []error{
		one.ClusterAddSlotsRange(t.Context(), 0, 8191).Err(), two.ClusterAddSlotsRange(t.Context(), 8192, 16383).Err(),
		one.Do(t.Context(), "CLUSTER", "MEET", host, port, busB).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := newCache(t, time.Minute, a.addr, b.addr)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		x, y := one.ClusterInfo(t.Context()).Val(), two.ClusterInfo(t.Context()).Val()
		if strings.Contains(x, "cluster_state:ok") && strings.Contains(y, "cluster_state:ok") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster does not form: %s\n%s", x, y)
		}
	}
	for i := range 20 {
		eventually(t, c, fmt.Sprint("key", i), "content")
	}
}
