package notify

import (
	"testing"
	"time"

	"go.uber.org/zap"
)

func benchNotifier(b *testing.B) *Notifier {
	b.Helper()
	n, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://127.0.0.1:1", Timeout: time.Second, Threshold: 1, Backoff: time.Hour}}, Directory: b.TempDir(), MaxSize: 8 << 20, Version: V1, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	return n
}

// BenchmarkPulled measures what a pull costs its request.
func BenchmarkPulled(b *testing.B) {
	n, e := benchNotifier(b), someEvent()
	b.ReportAllocs()
	for b.Loop() {
		n.Pulled(e)
	}
}

// BenchmarkChanged measures what a durable event costs concurrent requests.
func BenchmarkChanged(b *testing.B) {
	n := benchNotifier(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := n.Changed(someEvent()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
