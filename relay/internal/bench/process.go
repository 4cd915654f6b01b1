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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a relay that runs.
type process struct {
	url  string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

// start runs a peer in a directory of its own and waits until it answers.
func start(ctx context.Context, peer Peer, dir, homeserver string) (*process, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	args, env, err := peer.prepare(dir, addr, homeserver)
	if err != nil {
		return nil, err
	}
	p := &process{url: "http://" + addr, cmd: exec.CommandContext(ctx, peer.Command, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // that it was ended is no news
		close(p.done)
	}()
	if err := p.waitReady(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s %w\n%s", peer.Name, err, p.out.Bytes())
	}
	return p, nil
}

func (p *process) waitReady(ctx context.Context) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-p.done:
			return errors.New("ended before it answered")
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/health", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return errors.New("does not answer")
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // or it has ended by itself
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cpu is the time that the process has used. /proc counts in 10 ms on every Linux.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // behind the name, which may hold spaces
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", p.cmd.Process.Pid, stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// peak is the most memory that the process has held, in MiB.
func (p *process) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	return n >> 10, err
}
