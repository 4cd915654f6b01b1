//go:build !linux

package timerslack

import "time"

func allow(time.Duration) {}
