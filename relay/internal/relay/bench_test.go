package relay

import (
	"context"
	"testing"
)

func BenchmarkAccept(b *testing.B) {
	r := newRig(b)
	token := r.app("a", "!a:hs").Token
	req := AcceptRequest{Token: token, Title: "Backup", Message: "The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n", Source: "test", NativeScale: true}
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
	r := newRig(b, func(o *Options) { o.Sender = instant{newHomeserver()} })
	r.run()
	var tokens []string
	for _, room := range []string{"!a:hs", "!b:hs", "!c:hs", "!d:hs", "!e:hs", "!f:hs", "!g:hs", "!h:hs"} {
		tokens = append(tokens, r.app(room[1:2], room).Token)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			req := AcceptRequest{Token: tokens[i%len(tokens)], Title: "Backup", Message: "The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n", Source: "test", NativeScale: true}
			if _, err := r.Accept(context.Background(), req); err != nil {
				b.Error(err)
			}
		}
	})
	for r.waiting() > 0 {
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// instant is a sender that takes everything and remembers nothing.
type instant struct{ *homeserver }

func (instant) Send(context.Context, Outgoing) (string, error) {
	return "$0123456789012345678901234567890123456789012", nil
}
