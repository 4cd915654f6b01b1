package notify

import (
	"testing"
	"time"

	"go.uber.org/zap"
)

// BenchmarkPulled is what a pull costs a request: nothing is encoded or written
// while the client waits.
func BenchmarkPulled(b *testing.B) {
	n, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://127.0.0.1:1", Timeout: time.Second, Threshold: 1, Backoff: time.Hour}}, Directory: b.TempDir(), MaxSize: 8 << 20, Version: V1, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	e := someEvent()
	b.ReportAllocs()
	for b.Loop() {
		n.Pulled(e)
	}
}

// BenchmarkChanged is what the durable queue costs requests that come together.
func BenchmarkChanged(b *testing.B) {
	n, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://127.0.0.1:1", Timeout: time.Second, Threshold: 1, Backoff: time.Hour}}, Directory: b.TempDir(), MaxSize: 8 << 20, Version: V1, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := n.Changed(someEvent()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWriteBatch is what a pull costs beside its request, in batches as they come.
func BenchmarkWriteBatch(b *testing.B) {
	n, err := New(Options{Endpoints: []Endpoint{{Name: "x", URL: "http://127.0.0.1:1", Timeout: time.Second, Threshold: 1, Backoff: time.Hour}}, Directory: b.TempDir(), MaxSize: 8 << 20, Version: V1, Log: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	batch := make([]Event, 256)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch {
			batch[i] = someEvent()
			batch[i].Action = Pull
		}
		n.pulls = batch
		n.writeGathered()
	}
}
