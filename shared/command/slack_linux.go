package command

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AllowSlack lets the kernel be late with all timers of the process, by most in
// place of 50 µs. The Go runtime has a thread (sysmon) that wakes up every 20 µs
// to see whether others wait in the kernel, which they do all the time where files
// are read and written; on a virtual machine that was a fifth of all CPU. What it
// finds can wait for some milliseconds, and so can everything else in a service.
//
// Slack is inherited by threads, and that one is there before main is. So the
// program is executed once more, in the same process; nothing has been opened
// yet. Where the kernel does not know slack, or somebody has set more of it
// (TimerSlackNSec= of systemd), nothing is done. If the program cannot be
// executed, it goes on as it is. SLIPWAY_TIMERSLACK=off switches it off; it is no
// setting, because reading those may use up a pipe with a secret.
func AllowSlack(most time.Duration) {
	if os.Getenv("SLIPWAY_TIMERSLACK") == "off" {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if has, err := slack(); err != nil || has >= most {
		return
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(most), 0, 0, 0) != nil {
		return
	}
	if has, err := slack(); err != nil || has < most {
		return // else it would go round for ever
	}
	if self, err := os.Executable(); err == nil { // its path, after which the process is named
		_ = syscall.Exec(self, os.Args, os.Environ()) // see above
	}
}

// slack is that of this thread.
func slack() (time.Duration, error) {
	n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return time.Duration(n), err
}
