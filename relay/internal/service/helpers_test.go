package service_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(relaytest.Main(m)) }

func p[T any](v T) *T { return &v }

// refused returns the refusal in err.
func refused(err error) refusal.Error {
	if e := (*refusal.Error)(nil); errors.As(err, &e) {
		return *e
	}
	return refusal.Error{}
}
