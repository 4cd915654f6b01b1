package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mirrors compares pull-through caches with pulling from their upstream, which is 50 ms away.
type Mirrors struct {
	Direct Pulls            // without a cache
	Cached map[string]Pulls // by peer
	Warm   []Warm           // of ours
}

// Pulls is the cost of pulling a cold image of ten layers: medians of the rounds.
type Pulls struct {
	One, Many PullTimes // with one client, and with many at once
	Requests  int       // of blobs at the upstream, for the many
	Resident  int64     // the most memory of the cache, in bytes
}

// PullTimes are seconds.
type PullTimes struct {
	FirstByte float64 // until a layer begins, the median of all clients and layers
	Total     float64 // until the last client has the image
}

// Warm is the cost of a pull to a cache that holds everything, compared with one from a repository that
// takes pushes at the same server.
type Warm struct {
	Workload      string
	Local, Cached float64 // CPU seconds of the server
	Requests      int     // at the upstream
}

const (
	mirrorDelay   = 50 * time.Millisecond
	mirrorClients = 64
	mirrorLayers  = 10
	mirrorLayer   = 4 << 20
	parallel      = 3 // layers that a client pulls at once, as Docker does
)

const oursMirrorConfig = distributionConfig + `proxy: {upstreams: [{prefix: hub, remoteurl: "http://{upstream}"}]}
`

const theirMirrorConfig = distributionConfig + `proxy: {remoteurl: "http://{upstream}"}
`

// mirror is the peer as a cache of the upstream, and the prefix of its repositories there.
func (p Peer) mirror(upstream string) (cache Peer, prefix string) {
	p.Config = theirMirrorConfig
	if p.Name == oursName {
		p.Config, prefix = oursMirrorConfig, "hub/"
	}
	p.Config = strings.ReplaceAll(p.Config, "{upstream}", upstream)
	return p, prefix
}

// Mirror measures the first peer, which is ours, and distribution 3 if it is among the others.
// The upstream is the last of them, or ours.
func (o Options) Mirror(ctx context.Context) (m Mirrors, err error) {
	dir, err := os.MkdirTemp(o.Directory, "bench-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	caches, origin := o.Peers[:1], o.Peers[0]
	for _, p := range o.Peers[1:] {
		if p.Name == distribution3Name {
			caches, origin = []Peer{o.Peers[0], p}, p
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "upstream"), 0o700); err != nil {
		return m, err
	}
	up, err := start(ctx, origin, filepath.Join(dir, "upstream"), filepath.Join(dir, "upstream", "data"))
	if err != nil {
		return m, err
	}
	defer up.Stop()
	far, err := startFar(ctx, up.addr)
	if err != nil {
		return m, err
	}
	defer far.close()
	rounds := map[string][]Pulls{}
	for round := range o.Rounds {
		for _, p := range append([]Peer{{}}, caches...) {
			fmt.Fprintf(o.Log, "mirror, round %d of %d: %s\n", round+1, o.Rounds, p.Name)
			r, err := measureMirror(ctx, p, up, far, dir)
			if err != nil {
				return m, fmt.Errorf("%s: %w", p.Name, err)
			}
			rounds[p.Name] = append(rounds[p.Name], r)
		}
	}
	m.Cached = map[string]Pulls{}
	for name, r := range rounds {
		if name == "" {
			m.Direct = medianPulls(r)
		} else {
			m.Cached[name] = medianPulls(r)
		}
	}
	m.Warm, err = o.warm(ctx, caches[0], up, far, dir)
	return m, err
}

// measureMirror pulls two new images through a new cache, or directly if the peer has no name.
func measureMirror(ctx context.Context, p Peer, up *server, far *far, dir string) (r Pulls, err error) {
	at, prefix := far.addr, ""
	var cache *server
	if p.Name != "" {
		own, err := os.MkdirTemp(dir, "cache-")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(own) //nolint:errcheck // the caller removes what is around it
		p, prefix = p.mirror(far.addr)
		if cache, err = start(ctx, p, own, filepath.Join(own, "data")); err != nil {
			return r, err
		}
		defer cache.Stop()
		at = cache.addr
	}
	for _, clients := range []int{1, mirrorClients} {
		image, err := pushLayers(ctx, up.addr)
		if err != nil {
			return r, err
		}
		far.reset()
		times, err := pullAtOnce(ctx, at, prefix+repo, image, clients)
		if err != nil {
			return r, err
		}
		if clients == 1 {
			r.One = times
		} else {
			r.Many, r.Requests = times, far.blobs()
		}
	}
	if cache != nil {
		r.Resident, err = cache.Peak()
	}
	return r, err
}

// layers is an image, by the digests of its layers.
type layers struct {
	tag     string
	digests []string
}

// pushLayers pushes an image that nobody has seen.
func pushLayers(ctx context.Context, addr string) (image layers, err error) {
	c := newClient(ctx, addr)
	defer c.close()
	seed := rand.Uint64()
	image.tag = fmt.Sprintf("v%d", seed)
	body := make([]byte, mirrorLayer)
	for i := range mirrorLayers {
		binary.BigEndian.PutUint64(body, seed+uint64(i))
		d, err := c.push(repo, body)
		if err != nil {
			return image, err
		}
		image.digests = append(image.digests, d)
	}
	return image, c.pushManifest(repo, image.tag, manifestOf(image.digests[0], mirrorLayer, image.digests[1], mirrorLayer))
}

// pullAtOnce has the clients pull the image at the same time.
func pullAtOnce(ctx context.Context, addr, repo string, image layers, clients int) (t PullTimes, err error) {
	var mu sync.Mutex
	var firsts []float64
	var problems []error
	begun := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			first, err := pullImage(ctx, addr, repo, image)
			mu.Lock()
			defer mu.Unlock()
			firsts = append(firsts, first...)
			if err != nil {
				problems = append(problems, err)
			}
		})
	}
	all.Wait()
	t.Total = time.Since(begun).Seconds()
	if len(problems) > 0 {
		return t, problems[0]
	}
	t.FirstByte = middle(firsts)
	return t, nil
}

// pullImage pulls as Docker does, and describes how long each layer took to begin.
func pullImage(ctx context.Context, addr, repo string, image layers) (firsts []float64, err error) {
	c := &client{ctx: ctx, addr: addr, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: parallel, ReadBufferSize: 64 << 10}}}
	defer c.close()
	if _, _, err := c.do(http.MethodGet, c.url(repo, "manifests/"+image.tag), "", nil, http.StatusOK); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	work := make(chan string, len(image.digests))
	for _, d := range image.digests {
		work <- d
	}
	close(work)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for d := range work {
				first, failed := c.firstByte(c.url(repo, "blobs/"+d))
				mu.Lock()
				firsts = append(firsts, first)
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return firsts, err
}

// firstByte reads a layer and describes how long it took to begin.
func (c *client) firstByte(url string) (seconds float64, err error) {
	begun := time.Now()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		return 0, err
	}
	seconds = time.Since(begun).Seconds()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n+1 != mirrorLayer) {
		err = fmt.Errorf("GET %s: %s, %d bytes", url, resp.Status, n+1)
	}
	return seconds, err
}

// warm measures ours, once everything is cached.
func (o Options) warm(ctx context.Context, ours Peer, up *server, far *far, dir string) (all []Warm, err error) {
	own, err := os.MkdirTemp(dir, "warm-")
	if err != nil {
		return nil, err
	}
	p, prefix := ours.mirror(far.addr)
	s, err := start(ctx, p, own, filepath.Join(own, "data"))
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	var what pulled
	for _, addr := range []string{up.addr, s.addr} {
		c := newClient(ctx, addr)
		what, err = pushPulled(c)
		c.close()
		if err != nil {
			return nil, err
		}
	}
	clients := make([]*client, o.Connections)
	for i := range clients {
		clients[i] = newClient(ctx, s.addr)
		defer clients[i].close()
	}
	local, cached := what.reads(repo), what.reads(prefix+repo)
	for _, step := range cached {
		if err := step.do(clients[0], 0); err != nil { // the last cold pull
			return nil, err
		}
	}
	time.Sleep(time.Second) // what came is being stored
	for i := range local {
		var costs [2][]float64
		far.reset()
		for range max(o.Rounds, 3) {
			for kind, step := range []step{local[i], cached[i]} {
				r, err := o.Workload.measure(s, step, clients, new(atomic.Int64))
				if err != nil {
					return nil, err
				}
				costs[kind] = append(costs[kind], r.PerOperation)
			}
		}
		all = append(all, Warm{local[i].name, middle(costs[0]), middle(costs[1]), far.all()})
	}
	return all, nil
}

func middle(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

func medianPulls(rounds []Pulls) (m Pulls) {
	of := func(value func(Pulls) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, value(r))
		}
		return middle(all)
	}
	m.One = PullTimes{of(func(p Pulls) float64 { return p.One.FirstByte }), of(func(p Pulls) float64 { return p.One.Total })}
	m.Many = PullTimes{of(func(p Pulls) float64 { return p.Many.FirstByte }), of(func(p Pulls) float64 { return p.Many.Total })}
	for _, r := range rounds {
		m.Requests, m.Resident = max(m.Requests, r.Requests), max(m.Resident, r.Resident)
	}
	return m
}

// String is the Markdown tables.
func (m Mirrors) String() string {
	var b bytes.Buffer
	names := []string{oursName, distribution3Name}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := m.Cached[n]; return !ok })
	fmt.Fprintf(&b, "| cold image of %d layers of %d MiB, the upstream %v away | direct |", mirrorLayers, mirrorLayer>>20, mirrorDelay)
	rule := "|---|--:|"
	for _, n := range names {
		fmt.Fprintf(&b, " %s |", n)
		rule += "--:|"
	}
	fmt.Fprintf(&b, "\n%s\n", rule)
	row := func(name, format string, value func(Pulls) float64, ratio bool) {
		fmt.Fprintf(&b, "| %s | "+format+" |", name, value(m.Direct))
		for _, n := range names {
			fmt.Fprintf(&b, " "+format, value(m.Cached[n]))
			if ratio {
				fmt.Fprintf(&b, " (%.2f)", value(m.Cached[n])/value(m.Direct))
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	many := fmt.Sprintf("%d clients", mirrorClients)
	row("1 client: first byte of a layer, ms", "%.0f", func(p Pulls) float64 { return p.One.FirstByte * 1e3 }, true)
	row("1 client: whole image, ms", "%.0f", func(p Pulls) float64 { return p.One.Total * 1e3 }, true)
	row(many+": first byte of a layer, ms", "%.0f", func(p Pulls) float64 { return p.Many.FirstByte * 1e3 }, true)
	row(many+": all have the image, ms", "%.0f", func(p Pulls) float64 { return p.Many.Total * 1e3 }, true)
	row(many+": blob requests at the upstream", "%.0f", func(p Pulls) float64 { return float64(p.Requests) }, false)
	row("most memory, MiB", "%.0f", func(p Pulls) float64 { return float64(p.Resident) / (1 << 20) }, false)
	fmt.Fprintf(&b, "\n| warm, CPU of the server, µs per operation | pushed here | cached | requests at the upstream |\n|---|--:|--:|--:|\n")
	for _, w := range m.Warm {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f (%.2f) | %d |\n", w.Workload, w.Local*1e6, w.Cached*1e6, w.Cached/w.Local, w.Requests)
	}
	return b.String()
}
