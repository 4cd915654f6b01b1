package servertest

import "syscall"

// processAttributes gives the homeserver a group of its own, to be ended as a
// whole, and lets it end when the program that started it is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
