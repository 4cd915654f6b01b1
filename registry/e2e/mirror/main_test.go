// Package mirror proves that clients pull through a mirror of another registry, also without the upstream and after kills.
package mirror

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
