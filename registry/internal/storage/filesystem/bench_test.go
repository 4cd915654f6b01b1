package filesystem

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// BenchmarkPush pushes a small layer: note, upload, data and link, and the deletion of the
// note. TMPDIR chooses the file system.
func BenchmarkPush(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			s := openRoot(b, b.TempDir())
			defer s.Close()
			data := make([]byte, 4096)
			var n atomic.Int64
			run(b, parallel, func() {
				pushLayer(b, s, data, n.Add(1))
			})
		})
	}
}

// run calls f b.N times from several goroutines, and reports the CPU time, which waiting for
// the disk hides.
func run(b *testing.B, parallel int, f func()) {
	b.ReportAllocs()
	before := processorTime()
	next := make(chan struct{}, b.N)
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	done := make(chan struct{})
	for range parallel {
		go func() {
			for range next {
				f()
			}
			done <- struct{}{}
		}()
	}
	for range parallel {
		<-done
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N)/1000, "cpu-µs/op")
}

func processorTime() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func pushLayer(b *testing.B, s *Store, data []byte, n int64) {
	id := fmt.Sprintf("%08x", n)
	up := "/docker/registry/v2/repositories/bench/_uploads/" + id
	note := storage.Change{Key: up + "/startedat", Content: []byte("2026-11-21T01:46:28Z"), Ephemeral: true}
	if err := s.Apply(b.Context(), nil, storage.Stage{note}); err != nil {
		b.Fatal(err)
	}
	u, err := s.OpenUpload(b.Context(), up+"/data", storage.UploadOptions{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := u.Write(data); err != nil {
		b.Fatal(err)
	}
	err = s.Apply(b.Context(), nil, storage.Stage{
		{Key: "/docker/registry/v2/blobs/sha256/" + id[6:] + "/" + id + "/data", Upload: u},
		{Key: "/docker/registry/v2/repositories/bench/_layers/sha256/" + id + "/link", Content: make([]byte, 71)},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Apply(b.Context(), nil, storage.Stage{{Key: note.Key, Delete: true, Ephemeral: true}}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkApply is one link.
func BenchmarkApply(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			s := openRoot(b, b.TempDir())
			defer s.Close()
			var n atomic.Int64
			run(b, parallel, func() {
				key := fmt.Sprintf("/docker/registry/v2/repositories/bench/_layers/sha256/%d/link", n.Add(1))
				if err := s.Apply(b.Context(), nil, storage.Stage{{Key: key, Content: make([]byte, 71)}}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkMount is a link with the content of another, in an attempt.
func BenchmarkMount(b *testing.B) {
	s := openRoot(b, b.TempDir())
	defer s.Close()
	content := make([]byte, 71)
	src := "/docker/registry/v2/repositories/src/_layers/sha256/1/link"
	if err := s.Apply(b.Context(), nil, storage.Stage{{Key: src, Content: content}}); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	run(b, 16, func() {
		key := fmt.Sprintf("/docker/registry/v2/repositories/bench/_layers/sha256/%d/link", n.Add(1))
		if err := s.Apply(b.Context(), s.Begin(), storage.Stage{{Key: key, Content: content}}); err != nil {
			b.Error(err)
		}
	})
}
