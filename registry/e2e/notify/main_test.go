// Package notify proves that events are those of distribution, and survive kills and full or sick volumes.
package notify

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
