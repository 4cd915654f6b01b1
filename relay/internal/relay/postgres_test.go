package relay_test

import (
	"testing"

	"slipway/relay/internal/pgtest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	pgtest.Again(t, "TestFlood", "TestHeartbeat", "TestLease_TakenByAnother_NothingIsSentUntilItIsFree", "TestLease_BeginningFails_IsGivenBack", "TestToken_MadeByAnother_IsKnownAtOnce")
}

func TestFull_OnPostgres(t *testing.T) { pgtest.Again(t) }
