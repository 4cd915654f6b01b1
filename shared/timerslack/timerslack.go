// Package timerslack makes a process cheaper by letting its timers fire a little late.
package timerslack

import "time"

// Allow lets the kernel fire the timers of all threads up to d late, and so together with others. Go's runtime otherwise wakes a
// thread of its own up to every 20 µs while the process is busy.
//
// The runtime starts that thread before any code of ours, and a thread inherits its slack from its maker: Allow sets the slack
// and then executes the program once more, in the same process and with the same arguments and environment. So main calls it
// before anything else. It returns if the process has more slack than a new one gets, as by systemd's TimerSlackNSec=, and
// where the slack can't be set: that is no reason not to run.
func Allow(d time.Duration) { allow(d) }
