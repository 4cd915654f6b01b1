//go:build !linux

package command

import "time"

// AllowSlack does nothing: it is for Linux.
func AllowSlack(time.Duration) {}
