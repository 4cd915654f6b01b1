package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// All threads of the service have slack timers, those that the Go runtime starts before main included. See
// docs/decisions/0013-timer-slack.md.
func TestTimerSlack(t *testing.T) {
	s := newSiteAt(t, newStub(t).url)
	s.start()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(s.proc.Process.Pid) + "/task/*")
	if err != nil || len(threads) < 3 {
		t.Fatalf("threads %q, %v", threads, err)
	}
	for _, thread := range threads {
		b, err := os.ReadFile("/proc/" + filepath.Base(thread) + "/timerslack_ns")
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if slack := strings.TrimSpace(string(b)); err != nil || slack != "4000000" {
			t.Errorf("thread %s has a slack of %s ns (%v), want 4000000", filepath.Base(thread), slack, err)
		}
	}
}
