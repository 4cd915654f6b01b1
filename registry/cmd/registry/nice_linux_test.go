package main

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBeNice(t *testing.T) {
	end := beNice()
	defer end()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && got > 20-niceness {
			t.Errorf("thread %d has the niceness %d", id, 20-got)
		}
	}
}
