package harness

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a server that a test started. It ends with the test, at the latest.
type Process struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{}
	err  error // of Wait, after done
}

// output is what a process writes, readable while it does.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// Start runs a server in a process group of its own and waits until url is
// answered, with whatever status; without a url it waits for nothing.
func Start(t testing.TB, cmd *exec.Cmd, url string) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(cmd.Path), tail(p.Output()))
		}
	})
	if err := p.waitFor(url); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(cmd.Path), err, tail(p.Output()))
	}
	return p
}

func (p *Process) waitFor(url string) error {
	if url == "" {
		return nil
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.done:
			return errors.New("it ended before it answered")
		default:
		}
		err := ask(url)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func ask(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Output is what the process has written so far, to both streams.
func (p *Process) Output() string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.b.String()
}

// Kill ends the process and its group at once.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.done
}

// Stop ends the process as an operator does, by SIGTERM, and returns its exit
// error. The test fails if that takes longer than limit.
func (p *Process) Stop(t testing.TB, limit time.Duration) error {
	t.Helper()
	return p.stop(t, p.cmd.Process.Pid, limit)
}

// StopGroup is [Process.Stop] for a server below a program that passes on no
// signal, such as strace: the whole group is told.
func (p *Process) StopGroup(t testing.TB, limit time.Duration) error {
	t.Helper()
	return p.stop(t, -p.cmd.Process.Pid, limit)
}

func (p *Process) stop(t testing.TB, pid int, limit time.Duration) error {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		p.Kill()
		t.Fatalf("%s did not end within %s of SIGTERM", filepath.Base(p.cmd.Path), limit)
		return nil
	}
}
