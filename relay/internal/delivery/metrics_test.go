package delivery

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/store"
)

// asked is a homeserver that says when it is sent something.
type asked struct {
	yes
	sent chan struct{}
}

func (a asked) Send(context.Context, matrix.Outgoing) (string, error) {
	a.sent <- struct{}{}
	return "$e", nil
}

// A relay delivers from Run until its end: one that has read the rooms and then failed to begin does not.
func TestMetrics_Delivering_IsOneWhileItRuns(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	room := withRoom(t, s)
	hs, reg := asked{sent: make(chan struct{})}, prometheus.NewRegistry()
	d, err := New(t.Context(), Options{Store: s, Sender: hs, Rooms: hs, Log: zap.NewNop(), Metrics: NewMetrics(reg), Parallel: 2, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, value float64) {
		t.Helper()
		if got := gaugeOf(t, reg, "relay_delivering"); got != value {
			t.Errorf("%s: relay_delivering is %v, want %v", when, got, value)
		}
	}
	want("before", 0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	now := time.Now().UnixMilli()
	if err := s.Accept(ctx, &store.Accept{Entry: outbox.Entry{Origin: outbox.Origin{ApplicationID: 1, Room: room, AcceptedAt: now}, Txn: message.NewTxn(), QueuedAt: now, Content: outbox.Content{Body: "x"}}}); err != nil {
		t.Fatal(err)
	}
	<-hs.sent
	want("while it sends", 1)
	stop()
	<-ended
	want("afterwards", 0)
}

func gaugeOf(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
