package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

var errExited = errors.New("the process ended during its start")

// process is a homeserver's operating system process with its group.
type process struct {
	pid    int
	done   chan struct{}
	output string
	once   sync.Once
}

// startProcess runs a homeserver in dir. It ends with this process unless outlives is set. Its output goes to output.log there.
func startProcess(dir string, outlives bool, program string, args ...string) (*process, error) {
	output := filepath.Join(dir, "output.log")
	log, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	// No context: the process runs until Stop, not until the caller's deadline.
	cmd := exec.Command(program, args...) //nolint:noctx // see above
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = processAttributes()
	if outlives {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}

	p := &process{done: make(chan struct{}), output: output}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is bound to the thread that forked, so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // output.log has the reason
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

// stop terminates the process group, and kills it after grace.
func (p *process) stop(grace time.Duration) {
	p.once.Do(func() {
		if grace > 0 {
			_ = syscall.Kill(-p.pid, syscall.SIGTERM)
			select {
			case <-p.done:
				return
			case <-time.After(grace):
			}
		}
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	})
	<-p.done
}

// tail returns the last lines of the process's output, for an error message.
func (p *process) tail() string {
	b, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

// freePort returns a port of 127.0.0.1 that was free a moment ago.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
