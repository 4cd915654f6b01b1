package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"

	"slipway/tools/bench/process"
)

// server is a relay that runs.
type server struct {
	*process.Process
	url string
}

// start runs a peer in a directory of its own and waits until it answers.
func start(ctx context.Context, peer Peer, dir, homeserver string) (*server, error) {
	addr, err := process.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	args, env, err := peer.prepare(dir, addr, homeserver)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, peer.Command, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	p, err := process.Start(cmd, func() error { return healthy(ctx, "http://"+addr+"/health") })
	return &server{p, "http://" + addr}, err
}

func healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
