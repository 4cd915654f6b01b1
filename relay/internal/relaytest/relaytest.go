// Package relaytest makes a relay with a scripted homeserver, for the tests of its packages.
package relaytest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/store"
)

// The administrator of the services that New makes.
const (
	AdminName     = "admin"
	AdminPassword = "correct horse"
	AdminMatrixID = "@admin:example.org"
)

// New makes a service on a database of its own and delivers with it until the test ends. It returns once the homeserver has
// answered, unless change, which adjusts the options and may be nil, makes the homeserver fail.
func New(t testing.TB, change func(*relay.Options)) (*relay.Service, *Homeserver) {
	t.Helper()
	hs := NewHomeserver()
	hs.Strict = true
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	o := relay.Options{
		Store: db, Sender: hs, Rooms: hs, Log: zap.NewNop(), Metrics: relay.NewMetrics(prometheus.NewRegistry()),
		Admin: account.Admin{Name: AdminName, Password: AdminPassword, MatrixID: AdminMatrixID}, CheckToken: true,
	}
	if change != nil {
		change(&o)
	}
	s, err := relay.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var delivering sync.WaitGroup
	delivering.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		delivering.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("close the service: %v", err)
		}
	})
	for n := 0; s.Status(ctx).Paused != "" && !hs.failing(); n++ {
		if n == 2000 {
			t.Fatalf("the service does not deliver: %s", s.Status(ctx).Paused)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return s, hs
}
