package bench

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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a peer that runs.
type server struct {
	peer string
	addr string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

// start runs the peer and waits until it answers.
func start(ctx context.Context, peer Peer, dir, root string) (*server, error) {
	addr, err := freeAddr(ctx)
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
	s := &server{peer: peer.Name, addr: addr, cmd: exec.CommandContext(ctx, peer.Command, args...), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), peer.Env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // that it was killed is no news
		close(s.done)
	}()
	if err := s.waitReady(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("%w\n%s", err, s.out.Bytes())
	}
	return s, nil
}

func freeAddr(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) waitReady(ctx context.Context) error {
	probe := newClient(ctx, s.addr)
	defer probe.close()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.done:
			return errors.New("it ended before it answered")
		default:
		}
		header, _, err := probe.do(http.MethodGet, "http://"+s.addr+"/v2/", "", nil, http.StatusOK)
		if err == nil || header.Get("WWW-Authenticate") != "" {
			return nil
		}
	}
	return errors.New("it does not answer")
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // or it has ended by itself
	<-s.done
}

// ticks is the unit of CPU time in /proc: 10 ms on every Linux.
const ticks = 100

// cpu is the time that the server has used, in seconds.
func (s *server) cpu() (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and may hold spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", s.cmd.Process.Pid, stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks, err
}

// resident is the most memory that the server has held, in bytes.
func (s *server) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	return n << 10, err
}
