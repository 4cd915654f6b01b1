package account_test

import (
	"testing"

	"slipway/relay/internal/servertest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	servertest.Again(t, "TestSessions", "TestRight_LostWithTheMembership", "TestNamesThatDifferInCase", "TestLogInPerson", "TestTokens")
}

func TestFull_OnPostgres(t *testing.T) { servertest.Again(t) }
