// Package config proves that configurations, their reloads, TLS and certificates work, and that what can't start is named.
package config

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
