package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestMemoryLimit(t *testing.T) {
	for inUse, want := range map[int64]int64{0: 64, 48: 64, 49: 68, 100: 136, 1000: 1336} {
		if got := memoryLimit(inUse << 20); got != want<<20 {
			t.Errorf("with %d MiB in use the limit is %d MiB, want %d", inUse, got>>20, want)
		}
	}
}

// A process that needs more than the limit gets more, and gives it back.
func TestTuneMemory_LimitFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	stop := tuneMemory()
	needed := make([]byte, 200<<20)
	waitForLimit(t, func(limit int64) bool { return limit >= 266<<20 && limit < 400<<20 })
	runtime.KeepAlive(needed)
	waitForLimit(t, func(limit int64) bool { return limit < 200<<20 })
	stop()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("afterwards the limit is %d, want %d as before", got, before)
	}
}

func TestTuneMemory_EnvironmentGoesFirst(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1GiB") // which the runtime reads when it begins
	before := debug.SetMemoryLimit(-1)
	defer tuneMemory()()
	runtime.GC()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit is %d, want %d as before", got, before)
	}
}

// waitForLimit collects until the limit is right.
func waitForLimit(t *testing.T, right func(limit int64) bool) {
	t.Helper()
	for giveUp := time.Now().Add(20 * time.Second); !right(debug.SetMemoryLimit(-1)); time.Sleep(time.Millisecond) {
		if time.Now().After(giveUp) {
			t.Fatalf("the limit stays at %d", debug.SetMemoryLimit(-1))
		}
		runtime.GC()
	}
}
