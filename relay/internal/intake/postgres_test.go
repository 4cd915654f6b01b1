package intake_test

import (
	"testing"

	"slipway/relay/internal/pgtest"
)

// What reads and writes most, and what only PostgreSQL does, on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	pgtest.Again(t, "TestIdempotencyKey", "TestMessagesAreListed", "TestCancel")
}

func TestFull_OnPostgres(t *testing.T) { pgtest.Again(t) }
