package delivery_test

import (
	"context"
	"os"
	"testing"

	"slipway/relay/internal/relaytest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(relaytest.Main(m)) }

func p[T any](v T) *T { return &v }
