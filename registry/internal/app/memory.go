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

// gcPercent is GOGC unless that is set. The live heap is a few MiB, so this costs little memory
// and saves about a seventh of the CPU of a small request.
const gcPercent = 300

// tuneCollector sets gcPercent unless GOGC is set.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
