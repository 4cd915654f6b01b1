// Package load proves that kills lose nothing acknowledged, and that load, large blobs and stalled readers take little memory.
package load

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
