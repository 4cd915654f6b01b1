package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Workload is the duration of each kind of work.
type Workload struct {
	Duration time.Duration
}

// step is one kind of work: what one connection does again and again. n is
// another number each time.
type step struct {
	name string
	do   func(c *client, n int64) error
}

const (
	smallBlob = 4 << 10
	largeBlob = 16 << 20
	repo      = "bench/app"
)

// steps prepares what is read and describes what is measured.
func steps(c *client) ([]step, error) {
	pulled, err := pushPulled(c)
	if err != nil {
		return nil, err
	}
	small := pulled.small
	return append(pulled.reads(repo), []step{
		{"push 4 KiB", func(c *client, n int64) error { _, err := c.pushBlob(repo, n, smallBlob); return err }},
		{"push 16 MiB", func(c *client, n int64) error { _, err := c.pushBlob(repo, n, largeBlob); return err }},
		{"mount", func(c *client, n int64) error { return c.mount(fmt.Sprintf("bench/to-%d", n), small, repo) }},
		{"image push", func(c *client, n int64) error { return c.pushImage(fmt.Sprintf("bench/image-%d", n%20), n) }},
	}...), nil
}

// pulled holds the content that is read: a manifest, a small and a large blob.
type pulled struct {
	small, large string
	manifest     int64 // its size
}

// pushPulled pushes it. It is the same everywhere.
func pushPulled(c *client) (p pulled, err error) {
	if p.small, err = c.pushBlob(repo, 1, smallBlob); err != nil {
		return p, err
	}
	if p.large, err = c.pushBlob(repo, 2, largeBlob); err != nil {
		return p, err
	}
	manifest := manifestOf(p.small, smallBlob, p.large, largeBlob)
	p.manifest = int64(len(manifest))
	return p, c.pushManifest(repo, "v1", manifest)
}

// reads are the ways to read it in the repository.
func (p pulled) reads(repo string) []step {
	read := func(name, method, path string, size int64) step {
		return step{name, func(c *client, _ int64) error { return c.read(repo, method, path, size) }}
	}
	return []step{
		read("manifest GET by tag", http.MethodGet, "manifests/v1", p.manifest),
		read("manifest HEAD by tag", http.MethodHead, "manifests/v1", 0),
		read("blob HEAD", http.MethodHead, "blobs/"+p.small, 0),
		read("blob GET 4 KiB", http.MethodGet, "blobs/"+p.small, smallBlob),
		read("blob GET 16 MiB", http.MethodGet, "blobs/"+p.large, largeBlob),
	}
}

// run does each kind of work on all connections for its time.
func (w Workload) run(ctx context.Context, s *server, connections int) ([]Result, error) {
	first := newClient(ctx, s.addr)
	defer first.close()
	all, err := steps(first)
	if err != nil {
		return nil, err
	}
	clients := make([]*client, connections)
	for i := range clients {
		clients[i] = newClient(ctx, s.addr)
		defer clients[i].close()
	}
	var results []Result
	var serial atomic.Int64
	serial.Store(1000)
	for _, step := range all {
		r, err := w.measure(s, step, clients, &serial)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func (w Workload) measure(s *server, step step, clients []*client, serial *atomic.Int64) (Result, error) {
	before, err := s.CPU()
	if err != nil {
		return Result{}, err
	}
	begun := time.Now()
	done, err := w.repeat(step, clients, serial)
	if err != nil {
		return Result{}, err
	}
	took := time.Since(begun).Seconds()
	after, err := s.CPU()
	if err != nil {
		return Result{}, err
	}
	resident, err := s.Peak()
	return Result{s.peer, step.name, (after - before).Seconds() / float64(done), float64(done) / took, resident}, err
}

// repeat does the work until the time is over, or something fails.
func (w Workload) repeat(step step, clients []*client, serial *atomic.Int64) (done int64, err error) {
	end := time.Now().Add(w.Duration)
	var count atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for _, c := range clients {
		workers.Go(func() {
			for time.Now().Before(end) && failed.Load() == nil {
				if err := step.do(c, serial.Add(1)); err != nil {
					failed.Store(&err)
					return
				}
				count.Add(1)
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return count.Load(), nil
}
