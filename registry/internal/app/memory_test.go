package app

import (
	"runtime/debug"
	"testing"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "1GiB") // the runtime has read it at its start
	LimitMemory()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT the limit is %d, want %d as before", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	LimitMemory()
	if got := debug.SetMemoryLimit(-1); got != softMemory {
		t.Errorf("the limit is %d, want %d", got, softMemory)
	}
}
