package quota

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"testing"
	"unsafe"

	"slipway/registry/internal/oci"
)

// What a count leaves in memory is 16 bytes for each blob.
func TestSizes(t *testing.T) {
	const blobs = 10_000
	seed := keys(maphash.MakeSeed())
	digest := func(i int) oci.Digest { return oci.SHA256.FromBytes(fmt.Append(nil, i)) }
	m := map[key]int64{}
	for i := range blobs {
		m[seed.of(digest(i))] = int64(i)
	}
	s := sizesOf(m)
	for i := range blobs {
		if size, ok := s.of(seed.of(digest(i))); !ok || size != int64(i) {
			t.Fatalf("blob %d: %d, %v", i, size, ok)
		}
	}
	for i := range blobs {
		if _, ok := s.of(seed.of(digest(blobs + i))); ok {
			t.Errorf("blob %d, which nobody has pushed", blobs+i)
		}
	}
	if got := s.total(); got != blobs*(blobs-1)/2 {
		t.Errorf("%d bytes in all", got)
	}
	if n := uintptr(cap(s.keys))*unsafe.Sizeof(s.keys[0]) + uintptr(cap(s.bytes))*unsafe.Sizeof(s.bytes[0]); n > 17*blobs {
		t.Errorf("%d bytes of memory for %d blobs", n, blobs)
	}
	var none sizes
	if _, ok := none.of(1); ok || none.total() != 0 {
		t.Error("no sizes hold some")
	}
}

// BenchmarkSizes_Memory says how much memory a million blobs take while they are counted
// and afterwards.
func BenchmarkSizes_Memory(b *testing.B) {
	const blobs = 1_000_000
	heap := func() float64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	seed := keys(maphash.MakeSeed())
	for b.Loop() {
		empty := heap()
		m := map[key]int64{}
		for i := range blobs {
			m[seed.of(oci.SHA256.FromBytes(fmt.Append(nil, i)))] = int64(i)
		}
		counting := heap()
		s := sizesOf(m)
		m = nil
		b.ReportMetric((counting-empty)/blobs, "B/blob-counting")
		b.ReportMetric((heap()-empty)/blobs, "B/blob")
		runtime.KeepAlive(s)
		runtime.KeepAlive(m)
	}
}
