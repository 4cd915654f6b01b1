package memory

import (
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/drivertest"
)

func TestContract(t *testing.T) {
	drivertest.Run(t, func(*testing.T) driver.Driver { return New() })
}
