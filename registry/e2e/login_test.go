package e2e

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
)

// Two hundred clients that guess passwords without end do not lock out the users
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
	writeFile(t, file, []byte(lines.String()))
	p := startSlipway(t, t.TempDir(), "REGISTRY_AUTH_HTPASSWD_REALM=r", "REGISTRY_AUTH_HTPASSWD_PATH="+file, "REGISTRY_LOG_LEVEL=error")
	login := func(user string) {
		t.Helper()
		began := time.Now()
		if resp, body := fetch(t, "GET", "http://"+p.addr+"/v2/", basicAuth(user, "secret"), nil); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", user, resp.Status, body)
		}
		t.Logf("%s: %v", user, time.Since(began))
	}
	login("alice")

	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	var guessing, begun sync.WaitGroup
	begun.Add(200)
	for i := range 200 {
		guessing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+p.addr+"/v2/", nil)
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
		p := startSlipway(t, t.TempDir(), "REGISTRY_LOG_ACCESSLOG_DISABLED=false", "REGISTRY_LOG_LEVEL=info", "REGISTRY_HTTP_TRUSTEDPROXIES="+tt.proxies)
		header := http.Header{"X-Forwarded-For": {tt.forwarded}, "X-Real-Ip": {"198.51.100.8"}}
		fetch(t, "GET", "http://"+p.addr+"/v2/app/manifests/v1", header, nil)
		if err := p.stop(t); err != nil {
			t.Error(err)
		}
		out := p.Output()
		if !strings.Contains(out, tt.want+"[") || strings.Contains(out, tt.not) || strings.Contains(out, "198.51.100.8") {
			t.Errorf("trusted proxies %s:\n%s", tt.proxies, out)
		}
	}
}
