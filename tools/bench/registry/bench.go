package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Options say what is measured, and how long.
type Options struct {
	Peers       []Peer
	Rounds      int // each peer in turn, so often
	Workload    Workload
	Directory   string // for data; on the disk to measure
	Log         io.Writer
	Connections int
}

// Result is the cost of one workload to one peer in one round.
type Result struct {
	Peer, Workload string
	PerOperation   float64 // CPU seconds of the server
	Rate           float64 // operations a second
	Resident       int64   // the most memory so far, in bytes
}

// Run measures the peers in turn, round by round, so that what else happens on
// the machine meets all of them.
func Run(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for round := range o.Rounds {
		for _, peer := range o.Peers {
			fmt.Fprintf(o.Log, "round %d of %d: %s\n", round+1, o.Rounds, peer.Name)
			measured, err := o.measure(ctx, peer)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", peer.Name, err)
			}
			results = append(results, measured...)
		}
	}
	return results, nil
}

// measure does all the work on one peer, which gets a directory of its own.
func (o Options) measure(ctx context.Context, peer Peer) (results []Result, err error) {
	dir, err := os.MkdirTemp(o.Directory, "bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := start(ctx, peer, dir, filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	return o.Workload.run(ctx, server, o.Connections)
}
