package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway/tools/bench/process"
)

// server is a peer that runs.
type server struct {
	*process.Process
	peer string
	addr string
}

// start runs the peer and waits until it answers.
func start(ctx context.Context, peer Peer, dir, root string) (*server, error) {
	addr, err := process.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte(peer.config(addr, root)), 0o600); err != nil {
		return nil, err
	}
	var args []string
	for _, a := range peer.Args {
		args = append(args, strings.ReplaceAll(a, "{config}", config))
	}
	cmd := exec.CommandContext(ctx, peer.Command, args...)
	cmd.Env = append(os.Environ(), peer.Env...)
	probe := newClient(ctx, addr)
	defer probe.close()
	p, err := process.Start(cmd, func() error {
		header, _, err := probe.do(http.MethodGet, "http://"+addr+"/v2/", "", nil, http.StatusOK)
		if header.Get("WWW-Authenticate") != "" {
			return nil
		}
		return err
	})
	return &server{p, peer.Name, addr}, err
}
