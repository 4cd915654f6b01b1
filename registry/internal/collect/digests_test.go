package collect

import (
	"fmt"
	"runtime"
	"testing"

	"slipway/registry/internal/oci"
)

func TestDigests(t *testing.T) {
	s := newDigests()
	var all []oci.Digest
	for i := range 20_000 {
		alg := oci.SHA256
		if i%100 == 0 {
			alg = oci.SHA512
		}
		all = append(all, alg.FromBytes(fmt.Append(nil, i)))
	}
	for i, d := range all {
		if got := s.add(d); got != id(i) {
			t.Fatalf("the number of %d is %d", i, got)
		}
	}
	for i, d := range all {
		if got := s.add(d); got != id(i) || s.digest(got) != d {
			t.Fatalf("%s was number %d and is %d", d, i, got)
		}
	}
}

// A collection of a million blobs needs less than 256 MiB.
func TestDigestsAreSmall(t *testing.T) {
	const n = 1 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newDigests()
	for i := range n {
		s.add(oci.SHA256.FromBytes(fmt.Append(nil, i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / n; each > 64 {
		t.Errorf("a digest takes %.0f bytes", each)
	}
	runtime.KeepAlive(s)
}
