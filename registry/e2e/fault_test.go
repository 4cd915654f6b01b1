package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// remountReadOnly waits for a moment in which no file is open for writing, as
// the health check has one ten times a second.
func remountReadOnly(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

var healthFast = []string{
	"REGISTRY_HEALTH_STORAGEDRIVER_ENABLED=true",
	"REGISTRY_HEALTH_STORAGEDRIVER_INTERVAL=100ms",
	"REGISTRY_HEALTH_STORAGEDRIVER_THRESHOLD=2",
}

// waitHealth polls /debug/health until it has the status.
func waitHealth(t *testing.T, addr string, want int) string {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		resp, body := fetch(t, "GET", "http://"+addr+"/debug/health", nil, nil)
		if resp.StatusCode == want {
			return string(body)
		}
		if time.Now().After(deadline) {
			t.Fatalf("/debug/health stays %s %s, want %d", resp.Status, body, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A full disk is told, costs nothing that was there, and is over as soon as
// there is space again.
func TestDiskFull(t *testing.T) {
	root := filepath.Join(programtest.Mount(t, "tmpfs", "size=50m"), "root")
	p := startSlipway(t, root, healthFast...)
	kept := newImage(t, 21, 2, 1<<20)
	kept.push(t, p.addr, "full", "kept")

	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	var locations []string
	var last []byte
	for i := range 20 {
		resp, body := fetch(t, "POST", "http://"+p.addr+"/v2/full/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			last = body
			break
		}
		location := absolute(t, p.addr, resp.Header.Get("Location"))
		resp, body = fetch(t, "PATCH", location, http.Header{"Content-Type": {"application/octet-stream"}}, bytes.NewReader(append(big, byte(i))))
		if resp.StatusCode != http.StatusAccepted {
			if resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("PATCH onto a full disk: %s %s, want 500", resp.Status, body)
			}
			last = body
			locations = append(locations, location)
			break
		}
		locations = append(locations, absolute(t, p.addr, resp.Header.Get("Location")))
	}
	if !strings.Contains(string(last), "no space left") || strings.Contains(string(last), root) {
		t.Errorf("the answer on a full disk is %q; want a sentence about space, and no path", last)
	}
	if page := waitHealth(t, p.addr, http.StatusServiceUnavailable); !strings.Contains(page, `"disk full"`) {
		t.Errorf("/debug/health says %s", page)
	}
	kept.pulls(t, p.addr, "full", "kept")

	for _, location := range locations {
		// The upload that met the full disk may hold more than its Location says.
		if resp, _ := fetch(t, "DELETE", stripState(t, location), nil, nil); resp.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE upload on a full disk: %s", resp.Status)
		}
	}
	waitHealth(t, p.addr, http.StatusOK)
	newImage(t, 22, 2, 1<<20).push(t, p.addr, "full", "after")
}

func stripState(t *testing.T, location string) string {
	t.Helper()
	before, _, _ := strings.Cut(location, "?")
	return before
}

// A flush that fails once is an error for the client, never a false 201.
func TestFlushFails(t *testing.T) {
	for _, call := range []string{"fsync", "fdatasync"} {
		t.Run(call, func(t *testing.T) {
			root := t.TempDir()
			addr := programtest.FreeAddr(t)
			// Initialise the tree first: the injection counts calls from the start.
			start(t, addr, slipwayCommand(addr, root)).Kill()
			plain := slipwayCommand(addr, root)
			trace := filepath.Join(t.TempDir(), "trace")
			cmd := exec.Command(programtest.Tool(t, "strace"), append([]string{
				"-f", "-o", trace, "-e", "trace=" + call, "-e", "inject=" + call + ":error=EIO:when=1..3",
			}, plain.Args...)...)
			cmd.Env = plain.Env
			p := start(t, addr, cmd)
			img := newImage(t, 31, 1, 10_000)
			failed := 0
			for range 20 {
				acknowledged := tryPush(t, addr, "faulty", "v1", img)
				if acknowledged {
					break
				}
				failed++
			}
			traced, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			if injected := strings.Contains(string(traced), "INJECTED"); injected && failed == 0 {
				t.Errorf("%s failed under the registry and every answer was a success", call)
			} else if !injected && call == "fsync" {
				t.Errorf("the registry answered 201 without one %s", call)
			}
			p.Kill()
			img.pulls(t, start(t, addr, slipwayCommand(addr, root)).addr, "faulty", "v1")
		})
	}
}

// tryPush pushes an image and says whether every step was acknowledged.
func tryPush(t *testing.T, addr, repo, tag string, img *image) bool {
	t.Helper()
	for d, b := range img.blobs {
		if d == img.manifest {
			continue
		}
		resp, _ := fetch(t, "POST", "http://"+addr+"/v2/"+repo+"/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusAccepted {
			return false
		}
		resp, body := fetch(t, "PUT", withQuery(t, absolute(t, addr, resp.Header.Get("Location")), "digest", d), nil, bytes.NewReader(b))
		if resp.StatusCode != http.StatusCreated {
			if resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("PUT with a failing flush: %s %s, want 500", resp.Status, body)
			}
			return false
		}
	}
	resp, body := fetch(t, "PUT", "http://"+addr+"/v2/"+repo+"/manifests/"+tag, http.Header{"Content-Type": {typeManifest}}, bytes.NewReader(img.blobs[img.manifest]))
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("PUT manifest with a failing flush: %s %s, want 500", resp.Status, body)
	}
	return resp.StatusCode == http.StatusCreated
}

// A root that vanishes or turns read-only is seen, and its return too.
func TestStorageVanishes(t *testing.T) {
	t.Run("gone", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "root")
		p := startSlipway(t, root, healthFast...)
		img := newImage(t, 41, 1, 10_000)
		img.push(t, p.addr, "here", "v1")
		waitHealth(t, p.addr, http.StatusOK)
		if err := os.Rename(root, root+".away"); err != nil {
			t.Fatal(err)
		}
		waitHealth(t, p.addr, http.StatusServiceUnavailable)
		resp, body := fetch(t, "GET", "http://"+p.addr+"/v2/here/manifests/v1", acceptAll, nil)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || strings.Contains(string(body), root) {
			t.Errorf("GET without a storage: %s %s", resp.Status, body)
		}
		if _, err := os.Stat(root); err == nil {
			t.Error("the registry made a new root where its volume was")
		}
		if err := os.Rename(root+".away", root); err != nil {
			t.Fatal(err)
		}
		waitHealth(t, p.addr, http.StatusOK)
		img.pulls(t, p.addr, "here", "v1")
		newImage(t, 42, 1, 10_000).push(t, p.addr, "here", "v2")
	})
	t.Run("read-only", func(t *testing.T) {
		dir := programtest.Mount(t, "tmpfs", "size=20m")
		p := startSlipway(t, filepath.Join(dir, "root"), healthFast...)
		img := newImage(t, 43, 1, 10_000)
		img.push(t, p.addr, "here", "v1")
		remountReadOnly(t, dir)
		waitHealth(t, p.addr, http.StatusServiceUnavailable)
		img.pulls(t, p.addr, "here", "v1")
		resp, body := fetch(t, "POST", "http://"+p.addr+"/v2/here/blobs/uploads/", nil, nil)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "read-only") {
			t.Errorf("POST onto a read-only storage: %s %s, want 503 that says so", resp.Status, body)
		}
		again := startSlipway(t, filepath.Join(dir, "root"))
		before, _, _ := strings.Cut(again.Output(), "registry started")
		if !strings.Contains(before, "the storage is mounted read-only") {
			t.Errorf("a start on it logs %s", before)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=20m"); err != nil {
			t.Fatal(err)
		}
		waitHealth(t, p.addr, http.StatusOK)
		newImage(t, 44, 1, 10_000).push(t, p.addr, "here", "v2")
	})
}

// Idle, slow and dripping connections do not keep others from their work.
func TestSlowClients(t *testing.T) {
	p := startSlipway(t, t.TempDir())
	img := newImage(t, 51, 2, 1<<20)
	img.push(t, p.addr, "busy", "v1")
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range 500 {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, c)
		switch i % 4 {
		case 1: // half a request line
			io.WriteString(c, "GET /v2/ HT")
		case 2: // a body that does not come
			fmt.Fprintf(c, "PUT /v2/busy/manifests/x HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{", p.addr, typeManifest)
		case 3: // a large answer that nobody reads
			for d := range img.blobs {
				fmt.Fprintf(c, "GET /v2/busy/blobs/%s HTTP/1.1\r\nHost: %s\r\n\r\n", d, p.addr)
			}
		}
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { img.pulls(t, p.addr, "busy", "v1") })
	}
	wg.Wait()
	newImage(t, 52, 2, 100_000).push(t, p.addr, "busy", "v2")
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("8 pulls and a push took %v beside 500 idle and slow connections", d)
	}
}
