package filesystem

import (
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/drivertest"
)

func TestContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return openRoot(t, t.TempDir()) })
}

func openRoot(t testing.TB, root string) *Driver {
	t.Helper()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
