package delivery_test

import (
	"testing"

	"slipway/relay/internal/pgtest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	pgtest.Again(t, "TestMessagesArriveInOrder", "TestKilled", "TestKill9", "TestCountsAfterACrash", "TestRetention", "TestAlert_Edit", "TestAttachments_FollowTheirMessage")
}

func TestFull_OnPostgres(t *testing.T) { pgtest.Again(t) }
