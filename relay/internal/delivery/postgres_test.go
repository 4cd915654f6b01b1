package delivery_test

import (
	"testing"

	"slipway/relay/internal/servertest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	servertest.Again(t, "TestMessagesArriveInOrder", "TestKilled", "TestCountsAfterACrash", "TestRetention", "TestAlert_Edit", "TestAttachments_FollowTheirMessage")
}

func TestFull_OnPostgres(t *testing.T) { servertest.Again(t) }
