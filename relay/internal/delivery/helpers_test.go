package delivery_test

import (
	"context"
	"os"
	"testing"

	"slipway/relay/internal/relaytest"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	if where := os.Getenv(childEnv); where != "" {
		child(where)
		return
	}
	os.Exit(relaytest.Main(m))
}

func p[T any](v T) *T { return &v }
