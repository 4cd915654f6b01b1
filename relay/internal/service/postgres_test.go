package service_test

import (
	"testing"

	"slipway/relay/internal/servertest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	servertest.Again(t, "TestIdempotencyKey", "TestCancel", "TestStream_ManySenders_EachMessageOnceAndInOrder", "TestClient_OfAnotherRelay", "TestFlood", "TestHeartbeat", "TestLease_TakenByAnother_NothingIsSentUntilItIsFree", "TestLease_BeginningFails_IsGivenBack", "TestToken_MadeByAnother_IsKnownAtOnce", "TestToken_RevokedByAnother_EndsWithinASecond")
}

func TestFull_OnPostgres(t *testing.T) { servertest.Again(t) }
