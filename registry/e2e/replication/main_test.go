package replication

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
