package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceness is that of a command which works beside a server on the same machine.
const niceness = 10

// beNice lowers the priority of the process, so that the requests of a server are
// served first. Linux knows priorities of threads only, which new threads inherit.
// The end undoes it, where that is permitted.
func beNice() (end func()) {
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || 20-before >= niceness {
		return func() {}
	}
	setPriority(niceness)
	return func() { setPriority(20 - before) } // the system call counts from 20 downwards
}

func setPriority(nice int) {
	for range 2 { // those, too, that were started meanwhile
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice) // as well as permitted
			}
		}
	}
}
