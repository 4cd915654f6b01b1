package store

import (
	"context"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/message"
	"slipway/relay/internal/outbox"
)

func BenchmarkAccept(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var commits atomic.Int64
			s, err := Open(context.Background(), filepath.Join(b.TempDir(), "relay.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.SetParallelism(max(1, n/2))
			b.ReportAllocs()
			body := "bm1.2 The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n"
			accept := func() {
				now := time.Now().UnixMilli()
				a := &Accept{Entry: outbox.Entry{
					Origin: outbox.Origin{ApplicationID: 1, Room: 1, AcceptedAt: now, Source: "api"}, Txn: message.NewTxn(), QueuedAt: now, Content: outbox.Content{Priority: 1, Title: "Backup", Body: body},
				}}
				if err := s.Accept(context.Background(), a); err != nil {
					b.Error(err)
				}
				if a.Batch > 0 {
					commits.Add(1)
				}
				s.Report(NewOutcome(a.Entry, outbox.Sent{EventID: "$0123456789012345678901234567890123456789012"}, time.Now().UnixMilli()))
			}
			b.ResetTimer()
			if n == 1 {
				for b.Loop() {
					accept()
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						accept()
					}
				})
			}
			b.ReportMetric(float64(b.N)/float64(commits.Load()), "msgs/commit")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
