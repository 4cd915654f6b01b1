// Package maintenance proves that collection, retention, quotas, verification, export, import and restore work beside clients.
package maintenance

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
