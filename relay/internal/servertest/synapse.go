// Package servertest starts the servers that tests of the relay need: homeservers, PostgreSQL, a proxy that injects faults, and a
// Matrix client that reads encrypted rooms.
package servertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slipway/shared/testserver"
)

// SynapseOptions of Start.
type SynapseOptions struct {
	// Dir keeps configuration, signing key, database and logs. A second start
	// on the same directory is the same homeserver.
	Dir string
	// Python is the interpreter of the environment; "" means Python().
	Python string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Domain is the server name, the part of an identifier behind the colon.
	// "" means "localhost". It cannot change in a used Dir.
	Domain string
	// DefaultRateLimits keeps Synapse's default limits (a message in five seconds
	// after a burst of ten); otherwise there are none.
	DefaultRateLimits bool
	// StartTimeout bounds the start; 0 means 3 minutes.
	StartTimeout time.Duration

	outlives bool // the homeserver stays when the program that started it ends
}

// Homeserver is a running homeserver.
type Homeserver struct {
	URL    string // http://127.0.0.1:port
	Domain string

	dir    string
	secret string
	proc   *process
	http   *http.Client
	base   *url.URL
}

// StartSynapse starts a homeserver and returns once it answers. The caller must call Stop.
func StartSynapse(ctx context.Context, o SynapseOptions) (*Homeserver, error) {
	if o.Python == "" {
		python, err := Python()
		if err != nil {
			return nil, err
		}
		o.Python = python
	}
	if o.Domain == "" {
		o.Domain = "localhost"
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 3 * time.Minute
	}
	if o.Port != 0 {
		return start(ctx, o)
	}
	// A port found free may be taken by another process before Synapse binds it.
	var err error
	for range 3 {
		var s *Homeserver
		if o.Port, err = freePort(ctx); err != nil {
			return nil, err
		}
		if s, err = start(ctx, o); err == nil || !errors.Is(err, errExited) {
			return s, err
		}
	}
	return nil, err
}

func start(ctx context.Context, o SynapseOptions) (*Homeserver, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	secret, err := writeConfig(dir, o)
	if err != nil {
		return nil, fmt.Errorf("synapse: write configuration: %w", err)
	}
	s, err := newServer(fmt.Sprintf("http://127.0.0.1:%d", o.Port), o.Domain, dir, secret)
	if err != nil {
		return nil, err
	}
	s.proc, err = startProcess(dir, o.outlives, o.Python, "-m", "synapse.app.homeserver", "--config-path", filepath.Join(dir, "homeserver.yaml"))
	if err != nil {
		return nil, fmt.Errorf("synapse: %w", err)
	}
	return s, s.waitReady(ctx, o.StartTimeout)
}

func newServer(address, domain, dir, secret string) (*Homeserver, error) {
	base, err := url.Parse(address)
	return &Homeserver{URL: address, Domain: domain, dir: dir, secret: secret, http: &http.Client{Timeout: time.Minute}, base: base}, err
}

// SharedSynapse returns the homeserver that the tests of all packages share, each with accounts of its own, whose names begin with
// [Name]. It must not be stopped.
func SharedSynapse(ctx context.Context) (*Homeserver, error) {
	info, err := testserver.Use("synapse", func(dir string) (testserver.Running, error) {
		s, err := StartSynapse(ctx, SynapseOptions{Dir: dir, outlives: true})
		if err != nil {
			return testserver.Running{}, err
		}
		process, err := os.FindProcess(s.proc.pid)
		return testserver.Running{Process: process, Signal: syscall.SIGTERM, Info: []byte(s.URL + " " + s.secret + " " + dir)}, err
	})
	if err != nil {
		return nil, err
	}
	var address, secret, dir string
	if _, err := fmt.Sscan(string(info), &address, &secret, &dir); err != nil {
		return nil, err
	}
	return newServer(address, "localhost", dir, secret)
}

// Name returns the beginning of a name that no other test on the shared homeserver has.
func Name() string { return strings.ToLower(rand.Text()[:8]) + "-" }

// waitReady polls until the homeserver answers. If its process ends, or that takes longer than the timeout, the process is stopped, and
// the error has its last words.
func (s *Homeserver) waitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := s.poll(ctx)
	if err != nil {
		s.Stop()
		err = fmt.Errorf("homeserver: %w; last lines of its output:\n%s", err, s.proc.tail())
	}
	return err
}

func (s *Homeserver) poll(ctx context.Context) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/_matrix/client/versions", nil)
		if err != nil {
			return err
		}
		if resp, err := s.http.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.proc.done:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the homeserver and waits for it. A second Stop does nothing.
func (s *Homeserver) Stop() { s.proc.stop(10 * time.Second) }

// Kill ends the homeserver at once, as a crash would.
func (s *Homeserver) Kill() { s.proc.stop(0) }

// Done is closed when the homeserver's process has ended.
func (s *Homeserver) Done() <-chan struct{} { return s.proc.done }

// Python finds .tools/synapse/bin/python in the working directory or above it.
func Python() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		python := filepath.Join(dir, ".tools", "synapse", "bin", "python")
		if _, err := os.Stat(python); err == nil {
			return python, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the Matrix homeserver (Synapse) is not installed: run \"make tools\" at the top of the sources, and this again from a directory in them")
		}
		dir = parent
	}
}

// SecretFile returns the path of the registration secret.
func (s *Homeserver) SecretFile() string { return filepath.Join(s.dir, "registration.secret") }
