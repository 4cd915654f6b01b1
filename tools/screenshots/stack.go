package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stack is a homeserver, a relay and a registry that run, as `make run` starts them.
type stack struct {
	dir                         string // working directory of all; the configurations name .run below it
	bin                         string
	config                      string // of the relay
	env                         []string
	homeserver, relay, registry string // addresses
	processes                   []*exec.Cmd
}

func startStack(ctx context.Context, bin string) (s *stack, err error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	// Below the root, where devhomeserver finds .tools.
	s = &stack{dir: filepath.Join(root, ".run", "screenshots"), config: filepath.Join(root, "deploy", "local", "relay.yml")}
	if s.bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(filepath.Join(s.dir, ".run"), 0o700)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	home, relay, registry := address(ctx, 8008), address(ctx, 8080), address(ctx, 5000)
	s.homeserver, s.relay, s.registry = "http://"+home, "http://"+relay, registry
	s.env = append(os.Environ(),
		"RELAY_HTTP_LISTENADDRESS="+relay, "RELAY_MATRIX_HOMESERVER="+s.homeserver,
		"RELAY_MATRIX_ENCRYPT_NEW_ROOMS=false", // the room is read without a device that has keys
		"REGISTRY_HTTP_ADDR="+registry, "REGISTRY_HTTP_DEBUG_ADDR="+address(ctx, 0), "REGISTRY_NOTIFICATIONS_ENDPOINTS_0_URL="+s.relay+"/hook/registry")
	_, port, _ := net.SplitHostPort(home)
	if err := s.serve(ctx, s.homeserver+"/health", "devhomeserver", "serve", "--dir", ".run/homeserver", "--port", port); err != nil {
		return nil, err
	}
	if _, err := s.command(ctx, "relay", "setup", "--config", s.config, "--secrets", ".run/secrets", "--registration-secret-file", ".run/homeserver/registration.secret"); err != nil {
		return nil, err
	}
	if err := s.serve(ctx, s.relay+"/readyz", "relay", "serve", "--config", s.config); err != nil {
		return nil, err
	}
	return s, s.serve(ctx, "http://"+registry+"/v2/", "registry", "serve", filepath.Join(root, "deploy", "local", "registry.yml"))
}

// address is one of this machine: with the port, which readers know from the
// documentation, if it is free.
func address(ctx context.Context, port int) string {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		l, err = c.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "127.0.0.1:0" // the listener reports what is wrong
	}
	defer l.Close()
	return l.Addr().String()
}

// serve starts a program and waits until its address answers.
func (s *stack) serve(ctx context.Context, url, name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, cmd)
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			if resp.Body.Close(); resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer on %s; see %s: %w", name, url, log.Name(), ctx.Err())
}

// command runs a program and returns what it prints.
func (s *stack) command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = s.dir, s.env, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// secret is one that the setup has made; empty if it is not there.
func (s *stack) secret(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, ".run", "secrets", name))
	return strings.TrimSpace(string(text))
}

// stop ends the programs, the last first, and removes their data.
func (s *stack) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		_ = s.processes[i].Process.Signal(syscall.SIGTERM)
		_ = s.processes[i].Wait()
	}
	_ = os.RemoveAll(s.dir)
}
