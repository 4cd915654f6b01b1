package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// All threads of the service have slack timers, those that the Go runtime starts
// before main included. See shared/command/slack_linux.go.
func TestTimerSlack(t *testing.T) {
	t.Run("on", func(t *testing.T) { wantSlack(t, "1000000", startSlipway(t, t.TempDir())) })
	t.Run("off", func(t *testing.T) {
		wantSlack(t, "50000", startSlipway(t, t.TempDir(), "SLIPWAY_TIMERSLACK=off"))
	})
}

func wantSlack(t *testing.T, want string, p *process) {
	t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(p.ID()) + "/task/*")
	if err != nil || len(threads) < 3 {
		t.Fatalf("threads %q, %v", threads, err)
	}
	for _, thread := range threads {
		b, err := os.ReadFile("/proc/" + filepath.Base(thread) + "/timerslack_ns")
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if slack := strings.TrimSpace(string(b)); err != nil || slack != want {
			t.Errorf("thread %s has a slack of %s ns (%v), want %s", filepath.Base(thread), slack, err, want)
		}
	}
}
