package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// Collection measures how fast pulls of small blobs and manifests are while garbage is
// collected while the server runs, again and again, and how fast without.
type Collection struct {
	Quiet, Collecting float64 // operations a second: the medians of the rounds
	Runs              int     // of the collector that ended
}

// String says it in a line.
func (c Collection) String() string {
	return fmt.Sprintf("pulls of manifests and small blobs a second: %.0f; while garbage is collected, %d runs: %.0f (%.2f)",
		c.Quiet, c.Runs, c.Collecting, c.Collecting/c.Quiet)
}

// collectedImages is the number of images in the storage: half of them are garbage at the
// first run, and the others are checked in each.
const collectedImages = 1000

// CollectBeside measures ours. The rounds of one kind and of the other take turns.
func (o Options) CollectBeside(ctx context.Context, ours Peer) (result Collection, err error) {
	dir, err := os.MkdirTemp(o.Directory, "bench-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := start(ctx, ours, dir, filepath.Join(dir, "data"))
	if err != nil {
		return result, err
	}
	defer server.Stop()
	pull, clients, err := o.preparePulls(ctx, server)
	if err != nil {
		return result, err
	}
	var serial atomic.Int64
	var quiet, collecting []float64
	for range o.Rounds {
		r, err := o.Workload.measure(server, pull, clients, &serial)
		if err != nil {
			return result, err
		}
		quiet = append(quiet, r.Rate)
		end, runs := collectOften(ctx, ours, filepath.Join(dir, "config"))
		r, err = o.Workload.measure(server, pull, clients, &serial)
		end()
		if err != nil {
			return result, err
		}
		collecting = append(collecting, r.Rate)
		result.Runs += int(runs.Load())
	}
	slices.Sort(quiet)
	slices.Sort(collecting)
	result.Quiet, result.Collecting = quiet[len(quiet)/2], collecting[len(collecting)/2]
	return result, nil
}

// preparePulls pushes the images and describes what a pull is.
func (o Options) preparePulls(ctx context.Context, s *server) (pull step, clients []*client, err error) {
	first := newClient(ctx, s.addr)
	small, err := first.pushBlob(repo, 1, smallBlob)
	if err != nil {
		return pull, nil, err
	}
	manifest := manifestOf(small, smallBlob, small, smallBlob)
	if err := first.pushManifest(repo, "v1", manifest); err != nil {
		return pull, nil, err
	}
	for n := range int64(collectedImages) {
		if err := first.pushSmallImage(fmt.Sprintf("bench/kept-%d", n%20), fmt.Sprint("v", n/40), n); err != nil {
			return pull, nil, err
		}
	}
	for range o.Connections {
		clients = append(clients, newClient(ctx, s.addr))
	}
	pull = step{"pull", func(c *client, _ int64) error {
		if err := c.read(repo, http.MethodGet, "manifests/v1", int64(len(manifest))); err != nil {
			return err
		}
		return c.read(repo, http.MethodGet, "blobs/"+small, smallBlob)
	}}
	return pull, clients, nil
}

// pushSmallImage pushes a blob of its own and a manifest of it.
func (c *client) pushSmallImage(repo, tag string, n int64) error {
	blob, err := c.pushBlob(repo, 1_000_000+n, smallBlob)
	if err != nil {
		return err
	}
	return c.pushManifest(repo, tag, manifestOf(blob, smallBlob, blob, smallBlob))
}

// collectOften runs the command until end.
func collectOften(ctx context.Context, ours Peer, config string) (end func(), runs *atomic.Int64) {
	ctx, cancel := context.WithCancel(ctx)
	done, runs := make(chan struct{}), new(atomic.Int64)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, ours.Command, "garbage-collect", "-m", "-q", "--age", "0s", config)
			cmd.Env = append(os.Environ(), ours.Env...)
			if cmd.Run() == nil {
				runs.Add(1)
			}
		}
	}()
	return func() { cancel(); <-done }, runs
}
