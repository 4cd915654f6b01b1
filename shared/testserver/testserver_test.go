package testserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/shared/testserver"
)

const user = "TESTSERVER_USER"

func TestMain(m *testing.M) {
	if name := os.Getenv(user); name != "" {
		use(name)
		return
	}
	os.Exit(m.Run())
}

// use is a process of tests: it prints the server that it has got and ends when its input does.
func use(name string) {
	info, err := testserver.Use(name, func(dir string) (testserver.Running, error) {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err := cmd.Start()
		go func() { _ = cmd.Wait() }()
		return testserver.Running{Process: cmd.Process, Signal: syscall.SIGTERM, Linger: time.Second, Info: fmt.Appendf(nil, "%d %s", cmd.Process.Pid, dir)}, err
	})
	fmt.Println(string(info), err)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// Processes that begin at the same time share one server. It ends, and its files with it, once all of them are gone, whether they
// were killed or not; later ones get another.
func TestUse(t *testing.T) {
	name := fmt.Sprint("test", os.Getpid())
	begin := func(n int) (all []*exec.Cmd, said string) {
		t.Helper()
		var mu sync.Mutex
		var wg sync.WaitGroup
		different := map[string]bool{}
		for range n {
			wg.Go(func() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), user+"="+name)
				_, err := cmd.StdinPipe()
				out, bad := cmd.StdoutPipe()
				if err != nil || bad != nil || cmd.Start() != nil {
					t.Error(err, bad)
					return
				}
				line := make([]byte, 1000)
				read, _ := out.Read(line)
				mu.Lock()
				defer mu.Unlock()
				all, said = append(all, cmd), strings.TrimSpace(string(line[:read]))
				different[said] = true
			})
		}
		wg.Wait()
		if len(different) != 1 || !strings.HasSuffix(said, "<nil>") {
			t.Fatalf("%d servers: %v", len(different), different)
		}
		return all, said
	}
	end := func(all []*exec.Cmd) {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	first, one := begin(4)
	end(first[1:])
	second, again := begin(1)
	end(first[:1])
	if again != one {
		t.Errorf("while one is left there is %s, before there was %s", again, one)
	}
	end(second)
	var pid int
	var dir string
	if _, err := fmt.Sscan(one, &pid, &dir); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := os.Stat(dir)
		if syscall.Kill(pid, 0) != nil && err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
	}
	third, other := begin(1)
	t.Cleanup(func() {
		end(third)
		_, _ = fmt.Sscan(other, &pid)
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_ = os.RemoveAll(filepath.Dir(dir))
	})
	if other == one {
		t.Error("a server that has ended is found")
	}
}
