package auth

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway/registry/e2e/harness"
)

// A hundred clients that guess passwords without end do not lock out the users
// who come from the same address.
func TestLogin_GuessesLockNobodyOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "htpasswd")
	var lines strings.Builder
	for _, user := range []string{"alice", "bob", "carl"} {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), 8)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s:%s\n", user, hash)
	}
	harness.WriteFile(t, file, []byte(lines.String()))
	p := harness.StartRegistry(t, t.TempDir(), "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH="+file, "REGISTRY_LOG_LEVEL=error")
	login := func(user string) {
		t.Helper()
		began := time.Now()
		for try := 1; ; try++ {
			resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/", harness.BasicAuth(user, "secret"), nil)
			if resp.StatusCode == http.StatusTooManyRequests && try < 4 && user != "alice" { // as a slow machine answers
				continue
			}
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s %s", user, resp.Status, body)
			}
			break
		}
		t.Logf("%s: %v", user, time.Since(began))
	}
	login("alice")

	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	var guessing, begun sync.WaitGroup
	begun.Add(100)
	for i := range 100 {
		guessing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+p.Addr+"/v2/", nil)
				req.SetBasicAuth([]string{"carl", "nobody"}[i%2], fmt.Sprint(i, " ", n))
				if n == 0 {
					time.AfterFunc(time.Second, begun.Done)
				}
				if resp, err := client.Do(req); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	begun.Wait()
	for range 5 {
		login("alice") // is remembered
	}
	login("bob")
	login("carl") // whose password is guessed
	cancel()
	guessing.Wait()
}

// The log has the address that a trusted proxy tells, and of others their own,
// whatever they say.
func TestTrustedProxies(t *testing.T) {
	for _, tt := range []struct {
		proxies, forwarded string
		want, not          string
	}{
		{"[127.0.0.0/8]", "198.51.100.7, 203.0.113.9", "203.0.113.9 - - ", "198.51.100.7"},
		{"[]", "203.0.113.9", "127.0.0.1 - - ", "203.0.113.9"},
	} {
		p := harness.StartRegistry(t, t.TempDir(), "REGISTRY_LOG_ACCESSLOG_DISABLED=false", "REGISTRY_LOG_LEVEL=info", "REGISTRY_HTTP_TRUSTEDPROXIES="+tt.proxies)
		header := http.Header{"X-Forwarded-For": {tt.forwarded}, "X-Real-Ip": {"198.51.100.8"}}
		harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/app/manifests/v1", header, nil)
		if err := p.Stop(t); err != nil {
			t.Error(err)
		}
		out := p.Output()
		if !strings.Contains(out, tt.want+"[") || strings.Contains(out, tt.not) || strings.Contains(out, "198.51.100.8") {
			t.Errorf("trusted proxies %s:\n%s", tt.proxies, out)
		}
	}
}
