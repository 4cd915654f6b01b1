package drivertest

import (
	"context"
	"testing"

	"slipway/registry/internal/driver"
)

// Frozen is a storage beside a process that is stopped in a section: its barriers
// do not end in time. One without a deadline fails the test.
type Frozen struct {
	driver.Driver
	T testing.TB
}

// Barrier implements driver.Driver.
func (f Frozen) Barrier(ctx context.Context) error {
	if _, ends := ctx.Deadline(); !ends {
		f.T.Error("it waits for ever")
	}
	return context.DeadlineExceeded
}
