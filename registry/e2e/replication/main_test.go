// Package replication proves that content reaches other registries, over outages and kills.
package replication

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
