package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"slipway/registry/internal/cache/redis"
	"slipway/registry/internal/config"
	"slipway/shared/build"
	"slipway/shared/programtest"
)

// startRedis starts a redis-server on an address and waits until it answers as o says.
func startRedis(t *testing.T, o *client.Options, args ...string) *programtest.Process {
	t.Helper()
	host, _, _ := net.SplitHostPort(o.Addr)
	p := programtest.Launch(t, exec.Command(programtest.Tool(t, "redis-server"), append(args, "--bind", host, "--save", "", "--appendonly", "no", "--dir", t.TempDir())...))
	c := client.NewClient(o)
	defer c.Close()
	for end := time.Now().Add(time.Minute); c.Ping(t.Context()).Err() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("redis-server: %v\n%s", c.Ping(t.Context()).Err(), p.Output())
		}
	}
	return p
}

// cacheOf opens the cache of a redis section.
func cacheOf(t *testing.T, section string) *redis.Cache {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yml")
	text := "version: 0.1\nstorage: {inmemory: {}, cache: {blobdescriptor: redis}}\nredis: {dialtimeout: 10s, readtimeout: 10s, writetimeout: 10s, " + section + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := openRedis(cfg, zap.NewNop(), newMetrics(cfg, build.Info{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// remembers waits until the cache gives back what was put into it.
func remembers(t *testing.T, cache *redis.Cache, key string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		cache.Put(key, []byte("content"))
		if got, ok := cache.Get(t.Context(), key); ok && string(got) == "content" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come back", key)
		}
	}
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// Redis speaks TLS and asks for a certificate, a user and a password.
func TestRedis_TLS(t *testing.T) {
	cert, key := programtest.Certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	addr := programtest.FreeAddr(t)
	o := &client.Options{Addr: addr, Username: "registry", Password: "secret", TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	startRedis(t, o, "--port", "0", "--tls-port", port(addr), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "yes",
		"--user", "registry", "on", ">secret", "~*", "+@all", "--user", "default", "off")
	remembers(t, cacheOf(t, fmt.Sprintf("addr: %q, username: registry, password: secret, db: 3, clientname: slipway, tls: {certificate: %q, key: %q, rootcas: [%q]}", addr, cert, key, cert)), "a")
	c := client.NewClient(o)
	defer c.Close()
	o.DB = 3
	third := client.NewClient(o)
	defer third.Close()
	if n, err := third.DBSize(t.Context()).Result(); err != nil || n != 1 {
		t.Errorf("database 3 has %d keys, %v; want 1", n, err)
	}
	if n, err := c.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("database 0 has %d keys, %v; want none", n, err)
	}
	for name, section := range map[string]string{
		"an authority that is not known": fmt.Sprintf("addr: %q, username: registry, password: secret, tls: {enabled: true, certificate: %q, key: %q}", addr, cert, key),
		"no certificate":                 fmt.Sprintf("addr: %q, username: registry, password: secret, tls: {rootcas: [%q]}", addr, cert),
		"a wrong password":               fmt.Sprintf("addr: %q, username: registry, password: wrong, tls: {certificate: %q, key: %q, rootcas: [%q]}", addr, cert, key, cert),
		"no TLS":                         fmt.Sprintf("addr: %q, username: registry, password: secret", addr),
	} {
		if got, ok := cacheOf(t, section).Get(t.Context(), "a"); ok {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// The sentinels say who the primary is; when it dies, they make another one, which is used.
func TestRedis_Sentinel(t *testing.T) {
	primary, second, sentinel := programtest.FreeAddr(t), programtest.FreeAddr(t), programtest.FreeAddr(t)
	auth := []string{"--requirepass", "secret", "--masterauth", "secret"}
	dying := startRedis(t, &client.Options{Addr: primary, Password: "secret"}, append(auth, "--port", port(primary))...)
	startRedis(t, &client.Options{Addr: second, Password: "secret"}, append(auth, "--port", port(second), "--replicaof", "127.0.0.1 "+port(primary))...)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nrequirepass guard\nsentinel monitor images 127.0.0.1 %s 1\nsentinel auth-pass images secret\nsentinel down-after-milliseconds images 500\nsentinel failover-timeout images 2000\n", port(sentinel), port(primary))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := client.NewSentinelClient(&client.Options{Addr: sentinel, Password: "guard"})
	defer watch.Close()
	programtest.Launch(t, exec.Command(programtest.Tool(t, "redis-server"), file, "--sentinel", "--bind", "127.0.0.1", "--dir", t.TempDir()))
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		replicas, err := watch.Replicas(t.Context(), "images").Result()
		if err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the sentinel knows %v, %v", replicas, err)
		}
	}
	cache := cacheOf(t, fmt.Sprintf("addrs: [%q], mastername: images, password: secret, sentinelpassword: guard", sentinel))
	remembers(t, cache, "a")
	dying.Kill()
	remembers(t, cache, "b")
	if addr, err := watch.GetMasterAddrByName(t.Context(), "images").Result(); err != nil || net.JoinHostPort(addr[0], addr[1]) != second {
		t.Errorf("the primary is %v, %v; want %s", addr, err, second)
	}
}

// The limits of the pool also have the names that distribution 2.8 gives them.
func TestRedisOptions_OldNamesOfThePool(t *testing.T) {
	pool := config.RedisPool{MaxIdle: 3, MaxActive: 4, IdleTimeout: time.Minute}
	o, err := redisOptions(&config.Redis{Addr: "h:1", Pool: pool})
	if err != nil || o.MaxIdleConns != 3 || o.MaxActiveConns != 4 || o.ConnMaxIdleTime != time.Minute {
		t.Errorf("got %d, %d, %s, %v", o.MaxIdleConns, o.MaxActiveConns, o.ConnMaxIdleTime, err)
	}
}
