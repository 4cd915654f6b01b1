//go:build unix && !linux

package servertest

import "syscall"

// processAttributes gives the homeserver a group of its own, to be ended as a whole.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
