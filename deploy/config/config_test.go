// Package config_test holds the production configurations against the built
// services.
package config_test

import (
	"testing"

	"slipway/deploy/internal/harness"
)

// Both files are valid as they are and warn of nothing.
func TestCheck(t *testing.T) {
	for _, service := range []string{"registry", "relay"} {
		if out, err := harness.CheckConfig(t, harness.Binary(t, service), service+".yml"); err != nil || string(out) != "the configuration is valid\n" {
			t.Errorf("%s: %v\n%s", service, err, out)
		}
	}
}
