package store

import (
	"context"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkAccept(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var s *Store
			var commits atomic.Int64
			s, err := Open(context.Background(), filepath.Join(b.TempDir(), "relay.db"))
			if err != nil {
				b.Fatal(err)
			}
			s.OnCommit(func(c Commit) {
				commits.Add(1)
				for _, e := range c.Accepted {
					done := *e
					done.State, done.EventID, done.Attempts = Sent, "$0123456789012345678901234567890123456789012", 1
					s.Report(&Outcome{Entry: done, At: time.Now().UnixMilli(), SentNow: true})
				}
			})
			defer s.Close()
			b.SetParallelism(max(1, n/2))
			b.ReportAllocs()
			body := "bm1.2 The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n"
			accept := func() {
				now := time.Now().UnixMilli()
				e := &Entry{ApplicationID: 1, Room: 1, Txn: "0123456789012345678901234", AcceptedAt: now, QueuedAt: now, Priority: 1, Source: "api", Title: "Backup", Body: body}
				if _, err := s.Accept(context.Background(), e, nil); err != nil {
					b.Error(err)
				}
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
