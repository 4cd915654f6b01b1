package delivery_test

import (
	"context"
	"testing"

	"slipway/relay/internal/intake"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/relaytest"
)

func BenchmarkAccept(b *testing.B) {
	r := relaytest.NewRig(b)
	token := r.NewApp("a", "!a:hs").Token
	req := intake.Request{Token: token, Title: "Backup", Message: "The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n", Source: "test"}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Accept(context.Background(), req); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkDeliver measures a message's whole way, from acceptance to a sender that answers at once.
func BenchmarkDeliver(b *testing.B) {
	r := relaytest.NewRig(b, func(o *relay.Options) { o.Sender = instant{relaytest.NewHomeserver()} })
	r.Start()
	var tokens []string
	for _, room := range []string{"!a:hs", "!b:hs", "!c:hs", "!d:hs", "!e:hs", "!f:hs", "!g:hs", "!h:hs"} {
		tokens = append(tokens, r.NewApp(room[1:2], room).Token)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			req := intake.Request{Token: tokens[i%len(tokens)], Title: "Backup", Message: "The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n", Source: "test"}
			if _, err := r.Accept(context.Background(), req); err != nil {
				b.Error(err)
			}
		}
	})
	for r.Waiting() > 0 {
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// instant is a sender that takes everything and remembers nothing.
type instant struct{ *relaytest.Homeserver }

func (instant) Send(context.Context, matrix.Outgoing) (string, error) {
	return "$0123456789012345678901234567890123456789012", nil
}
