package app

import (
	"os"
	"runtime/debug"
)

// softMemory is the soft limit of Go's memory unless GOMEMLIMIT is set. It is several times
// what the registry holds under load, so that a process that needs more isn't slowed down.
const softMemory = 128 << 20

// LimitMemory sets the soft limit of memory unless GOMEMLIMIT does.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}
