package relay_test

import (
	"context"
	"os"
	"testing"

	"slipway/relay/internal/relaytest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(relaytest.Main(m)) }
