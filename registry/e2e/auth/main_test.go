// Package auth proves that clients log in and get their rights, by password files, rules and token services.
package auth

import (
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
