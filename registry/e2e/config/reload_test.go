package config

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// SIGHUP reloads passwords, certificates and the level of the log, and the upload of a
// user whose password stays goes on.
func TestSIGHUP_ReloadsAndCutsNothing(t *testing.T) {
	dir, addr := t.TempDir(), programtest.FreeAddr(t)
	users, file := filepath.Join(dir, "users"), filepath.Join(dir, "config.yml")
	bob := harness.HashLine(t, "bob", "stays")
	setAlice := func(password string) {
		t.Helper()
		harness.WriteFile(t, users, []byte(harness.HashLine(t, "alice", password)+bob))
	}
	setAlice("old")
	write := func(level, more string) {
		harness.WriteFile(t, file, []byte("version: 0.1\nlog: {level: "+level+", accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: "+dir+"/root}}\n"+
			"auth: {htpasswd: {realm: r, path: "+users+"}}\nhttp: {addr: '"+addr+"', secret: shared-by-all-replicas"+more+"}\n"))
	}
	write("info", "")
	p := harness.Start(t, addr, exec.Command(harness.Binary, "serve", file))
	login := func(password string) int {
		resp, _ := harness.Fetch(t, "GET", "http://"+addr+"/v2/", harness.BasicAuth("alice", password), nil)
		return resp.StatusCode
	}
	waitLog := func(want string) {
		t.Helper()
		harness.Eventually(t, "the log has "+want, func() bool { return strings.Contains(p.Output(), want) })
	}

	content := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	resp, _ := harness.Fetch(t, "POST", "http://"+addr+"/v2/app/blobs/uploads/", harness.BasicAuth("bob", "stays"), nil)
	location := harness.AbsoluteURL(t, addr, resp.Header.Get("Location"))
	body, half := io.Pipe()
	put := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", location+"&digest="+harness.DigestOf(content), body)
		req.SetBasicAuth("bob", "stays")
		req.Header.Set("Expect", "100-continue") // the body leaves when the server asks for it, after the login
		transport := &http.Transport{ExpectContinueTimeout: time.Minute}
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			put <- 0
			return
		}
		resp.Body.Close()
		put <- resp.StatusCode
	}()
	_, _ = half.Write(content[:5000])

	setAlice("new")
	write("debug", ", relativeurls: true")
	hangUp(t, p)
	waitLog(`msg="reloaded certificates, passwords, access rules, workloads and the log level"`)
	waitLog(`msg="other settings have changed; they take effect at the next start"`)
	if login("old") != http.StatusUnauthorized || login("new") != http.StatusOK {
		t.Error("the password file is not read again")
	}
	login("new") // is remembered, which is worth a line at level debug only
	waitLog("level=debug")

	harness.WriteFile(t, file, []byte("version: 0.1\nhttp: {adr: x}\n"))
	hangUp(t, p)
	waitLog(`msg="cannot reload the configuration; the former one stays"`)

	_, _ = half.Write(content[5000:])
	half.Close()
	if status := <-put; status != http.StatusCreated {
		t.Errorf("the upload ended with %d", status)
	}
	if err := p.Stop(t); err != nil {
		t.Error(err)
	}
}

func hangUp(t *testing.T, p *harness.Process) {
	t.Helper()
	if err := syscall.Kill(p.ID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
