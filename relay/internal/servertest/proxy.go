package servertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proxy forwards requests to a server unless a rule applies.
type Proxy struct {
	URL string

	target    *url.URL
	transport *http.Transport
	address   string

	mu      sync.Mutex
	server  *http.Server
	rules   []*Rule
	records []Record
}

// Rule applies a fault to requests.
type Rule struct {
	Method string // "" matches any
	Path   string // part of the escaped path
	Times  int    // uses; 0 means unlimited
	Fault  Fault

	used int
}

// Record is a request that reached the proxy.
type Record struct {
	Method string
	Path   string // escaped
	Query  string
	Header http.Header
	Body   string
	At     time.Time
	Fault  bool // a rule applied
	Status int  // of the server's answer; 0 if not forwarded
}

// StartProxy starts a proxy on a free port of 127.0.0.1 for the server at target.
func StartProxy(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: u, transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}, address: "127.0.0.1:0"}
	if err := p.Up(); err != nil {
		return nil, err
	}
	p.URL = "http://" + p.address
	return p, nil
}

// Up listens again on the same port after Down.
func (p *Proxy) Up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	p.address = l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute}
	p.server = server
	go server.Serve(l) //nolint:errcheck // ends when Down closes it
	return nil
}

// Down refuses connections and closes open ones.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		_ = p.server.Close() // the listener's error has no effect here
		p.server = nil
	}
}

// Close stops the proxy.
func (p *Proxy) Close() {
	p.Down()
	p.transport.CloseIdleConnections()
}

// Script replaces the rules. The first rule that matches and is not used up applies; without one, requests are forwarded.
func (p *Proxy) Script(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	for _, r := range rules {
		p.rules = append(p.rules, &r)
	}
}

// Records returns the requests with a part of the path, in order.
func (p *Proxy) Records(path string) []Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []Record
	for _, r := range p.records {
		if strings.Contains(r.Path, path) {
			some = append(some, r)
		}
	}
	return some
}

// Forget discards the records.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = nil
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected
	}
	x := &Exchange{Request: r, w: w, proxy: p, body: body}
	fault := p.admit(x)
	if fault == nil {
		fault = forward
	}
	fault(x)
}

// admit records the request and returns the fault that applies.
func (p *Proxy) admit(x *Exchange) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, path := x.Request, x.Request.URL.EscapedPath()
	i := slices.IndexFunc(p.rules, func(rule *Rule) bool {
		return (rule.Method == "" || rule.Method == r.Method) && strings.Contains(path, rule.Path) && (rule.Times == 0 || rule.used < rule.Times)
	})
	x.record = len(p.records)
	p.records = append(p.records, Record{
		Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: string(x.body), At: time.Now(), Fault: i >= 0,
	})
	if i < 0 {
		return nil
	}
	p.rules[i].used++
	return p.rules[i].Fault
}

// Exchange is a request on its way to the server.
type Exchange struct {
	Request *http.Request

	w      http.ResponseWriter
	proxy  *Proxy
	body   []byte
	record int
}

// answer is the server's answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask forwards the request and reads the answer, even if the client disconnects meanwhile.
func (x *Exchange) ask() (answer, error) {
	u := *x.Request.URL
	u.Scheme, u.Host = x.proxy.target.Scheme, x.proxy.target.Host
	req := &http.Request{
		Method: x.Request.Method, URL: &u, Header: x.Request.Header.Clone(), Host: x.Request.Host,
		Body: io.NopCloser(bytes.NewReader(x.body)), ContentLength: int64(len(x.body)),
	}
	resp, err := x.proxy.transport.RoundTrip(req.WithContext(context.WithoutCancel(x.Request.Context())))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	x.proxy.mu.Lock()
	if x.record < len(x.proxy.records) {
		x.proxy.records[x.record].Status = resp.StatusCode
	}
	x.proxy.mu.Unlock()
	return answer{resp.StatusCode, resp.Header, body}, err
}

func (x *Exchange) reply(a answer) {
	for k, v := range a.header {
		if k != "Content-Length" && k != "Transfer-Encoding" && k != "Connection" {
			x.w.Header()[k] = v
		}
	}
	x.w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	x.w.WriteHeader(a.status)
	_, _ = x.w.Write(a.body) // the client may have disconnected
}
