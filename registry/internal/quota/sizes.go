package quota

import (
	"hash/maphash"
	"slices"

	"slipway/registry/internal/oci"
)

// key stands for a digest in a ninth of the memory. Nobody outside of the process can look
// for two digests with the same key; that a new blob has by chance the key of one of a
// million happens once in 10¹³ blobs, and then its bytes are not counted.
type key uint64

// keys makes them, with a seed of the process.
type keys maphash.Seed

func (k keys) of(d oci.Digest) key { return key(maphash.String(maphash.Seed(k), string(d))) }

// sizes are the sizes of blobs, in 16 bytes for each. Nobody changes them.
type sizes struct {
	keys  []key   // sorted
	bytes []int64 // in the order of the keys
}

func sizesOf(m map[key]int64) sizes {
	s := sizes{make([]key, 0, len(m)), make([]int64, 0, len(m))}
	for k := range m {
		s.keys = append(s.keys, k)
	}
	slices.Sort(s.keys)
	for _, k := range s.keys {
		s.bytes = append(s.bytes, m[k])
	}
	return s
}

func (s *sizes) of(k key) (size int64, ok bool) {
	i, ok := slices.BinarySearch(s.keys, k)
	if !ok {
		return 0, false
	}
	return s.bytes[i], true
}

func (s *sizes) total() (bytes int64) {
	for _, size := range s.bytes {
		bytes += size
	}
	return bytes
}
