package programtest

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Process is a server that a test started. It ends with the test, at the latest.
type Process struct {
	cmd  *exec.Cmd
	out  Output
	done chan struct{}
	err  error // of Wait, after done
}

// Launch runs a server in a process group of its own, so that one below a tracer
// ends with that, and waits for nothing.
func Launch(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if out := p.Output(); t.Failed() && out != "" {
			t.Logf("output of %s:\n%s", filepath.Base(cmd.Path), Tail(out))
		}
	})
	return p
}

// Start is [Launch], and waits for up to three minutes until url is answered, with whatever status.
func Start(t testing.TB, cmd *exec.Cmd, url string) *Process {
	t.Helper()
	p := Launch(t, cmd)
	if err := p.WaitFor(url, 3*time.Minute); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(cmd.Path), err, Tail(p.Output()))
	}
	return p
}

// WaitFor waits until url is answered, with whatever status, or the process ends.
func (p *Process) WaitFor(url string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
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

// Output returns the output of the process so far, of both streams.
func (p *Process) Output() string { return p.out.String() }

// ID is the id of the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill ends the process and its group immediately, as kill -9 does.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.ID(), syscall.SIGKILL) // it may have ended
	<-p.done
}

// Stop ends the process as an operator does, by SIGTERM, and returns its exit
// error. The test fails if that takes longer than limit.
func (p *Process) Stop(t testing.TB, limit time.Duration) error {
	t.Helper()
	_ = syscall.Kill(p.ID(), syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		p.Kill()
		t.Fatalf("%s did not end within %s of SIGTERM", filepath.Base(p.cmd.Path), limit)
		return nil
	}
}
