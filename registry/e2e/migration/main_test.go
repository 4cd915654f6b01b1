// Package migration proves that distribution and the registry use the same files, in turns and at once, in both directions.
package migration

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestFull_Distribution3 repeats beside the newer line of distribution what the other tests do beside the older one.
func TestFull_Distribution3(t *testing.T) {
	for name, test := range map[string]func(*testing.T, harness.Peer){
		"exchange": exchangeWith, "rolling change-over": changeOver, "upload changes sides": uploadChangesSides, "trash": trashBeside,
	} {
		t.Run(name, func(t *testing.T) { test(t, harness.Distribution3) })
	}
}
