package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// far stands before a registry that is a long way off, and counts what is asked there.
type far struct {
	addr   string
	server *http.Server
	next   *httputil.ReverseProxy
	done   chan struct{}

	mu    sync.Mutex
	asked map[string]int // by kind: blobs, manifests …
}

func startFar(ctx context.Context, registry string) (*far, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &far{addr: l.Addr().String(), asked: map[string]int{}, done: make(chan struct{})}
	to := &url.URL{Scheme: "http", Host: registry}
	f.next = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		Transport: &http.Transport{MaxIdleConnsPerHost: 2 * mirrorClients, DisableCompression: true},
	}
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(f.done)
		_ = f.server.Serve(l) // it ends by close
	}()
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := "other"
	if strings.Contains(r.URL.Path, "/blobs/") {
		kind = "blobs"
	}
	if r.URL.Path != "/v2/" { // a health check
		f.mu.Lock()
		f.asked[kind]++
		f.mu.Unlock()
	}
	time.Sleep(mirrorDelay)
	f.next.ServeHTTP(w, r)
}

func (f *far) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.asked)
}

func (f *far) blobs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked["blobs"]
}

func (f *far) all() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.asked {
		n += of
	}
	return n
}

func (f *far) close() {
	_ = f.server.Close() // nobody asks any more
	<-f.done
}
