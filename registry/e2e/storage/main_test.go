// Package storage proves that clients are served from each object store, over faults, full disks and a move from files to a bucket.
package storage

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
