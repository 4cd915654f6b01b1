package timerslack

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is the program of the tests when they run it with SLACK.
func TestMain(m *testing.M) {
	if os.Getenv("SLACK") == "" {
		os.Exit(m.Run())
	}
	fmt.Println("begins", os.Getpid())
	if set, err := time.ParseDuration(os.Getenv("SLACK")); err == nil {
		Allow(set)
	}
	slack := make(chan int)
	go func() {
		runtime.LockOSThread()
		n, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		slack <- n
	}()
	fmt.Println(os.Args[1:], time.Duration(<-slack))
}

func TestAllow(t *testing.T) {
	for _, tc := range []struct {
		name, slack string
		given       time.Duration // to the process that starts it; 0 for what is usual
		want        string
		begins      int
	}{
		{"usual", "1ms", 0, "[serve a b] 1ms", 2},
		{"given by systemd", "1ms", 4 * time.Millisecond, "[serve a b] 4ms", 1},
		{"not asked for", "none", 0, "[serve a b] 50µs", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(tc.given.Nanoseconds()), 0, 0, 0); err != nil { // 0: the default
				t.Fatal(err)
			}
			defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
			cmd := exec.Command(os.Args[0], "serve", "a", "b")
			cmd.Env = append(os.Environ(), "SLACK="+tc.slack)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			pid := fmt.Sprintf("begins %d\n", cmd.Process.Pid)
			if got := string(out); got != strings.Repeat(pid, tc.begins)+tc.want+"\n" {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
