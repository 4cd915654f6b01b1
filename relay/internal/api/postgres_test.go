package api

import (
	"testing"

	"slipway/relay/internal/servertest"
)

// The accounts and the lists of messages on PostgreSQL, which compares texts in its own way.
func TestOnPostgres(t *testing.T) {
	servertest.Again(t, "TestApplications", "TestOthersThings", "TestUsers", "TestMessageList")
}
