// Package collect proves that collections of garbage under load, kills and faults delete nothing that was acknowledged.
package collect

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
