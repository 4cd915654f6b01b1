package filesystem

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/driver"
)

// BenchmarkPush is what the push of a small layer does: upload, note, commit of
// data and link, and the removal of what is left. Run it on the file system in
// question with TMPDIR.
func BenchmarkPush(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			d := openRoot(b, b.TempDir())
			defer d.Close()
			data := make([]byte, 4096)
			var n atomic.Int64
			run(b, parallel, func() {
				pushLayer(b, d, data, n.Add(1))
			})
		})
	}
}

// run calls f b.N times by so many goroutines, and reports the time of the
// processor, which the waiting for the disk hides.
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

func pushLayer(b *testing.B, d *Driver, data []byte, n int64) {
	id := fmt.Sprintf("%08x", n)
	up := "/docker/registry/v2/repositories/bench/_uploads/" + id
	if err := d.WriteScratch(b.Context(), up+"/startedat", []byte("2026-11-21T01:46:28Z")); err != nil {
		b.Fatal(err)
	}
	u, err := d.CreateUpload(b.Context(), up+"/data")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := u.Write(data); err != nil {
		b.Fatal(err)
	}
	err = d.Commit(b.Context(), driver.Stage{
		{Path: "/docker/registry/v2/blobs/sha256/" + id[6:] + "/" + id + "/data", Upload: u},
		{Path: "/docker/registry/v2/repositories/bench/_layers/sha256/" + id + "/link", Content: make([]byte, 71)},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.Discard(b.Context(), up); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommit is what a mount does: one link.
func BenchmarkCommit(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			d := openRoot(b, b.TempDir())
			defer d.Close()
			var n atomic.Int64
			run(b, parallel, func() {
				path := fmt.Sprintf("/docker/registry/v2/repositories/bench/_layers/sha256/%d/link", n.Add(1))
				if err := d.Commit(b.Context(), driver.Stage{{Path: path, Content: make([]byte, 71)}}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

const benchPath = "/docker/registry/v2/repositories/bench/_manifests/tags/latest/current/link"

func BenchmarkStat(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		if _, err := d.Stat(b.Context(), benchPath); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatMissing(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		if _, err := d.Stat(b.Context(), benchPath+"s"); err == nil {
			b.Fatal("it is there")
		}
	}
}

func BenchmarkReadFile(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		if _, err := d.ReadFile(b.Context(), benchPath, 256); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		f, err := d.Open(b.Context(), benchPath)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkList10000(b *testing.B) {
	d := openRoot(b, b.TempDir())
	defer d.Close()
	for i := range 10_000 {
		if err := d.mkdirAll(fmt.Sprintf("%s/tags/v%d", d.root, i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for range d.List(b.Context(), "/tags", "") {
			n++
		}
		if n != 10_000 {
			b.Fatalf("%d tags", n)
		}
	}
}

func benchDriver(b *testing.B) *Driver {
	d := openRoot(b, b.TempDir())
	b.Cleanup(func() { d.Close() })
	if err := d.WriteScratch(b.Context(), benchPath, make([]byte, 71)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return d
}

// BenchmarkMount is the commit of a link like one that is there.
func BenchmarkMount(b *testing.B) {
	d := openRoot(b, b.TempDir())
	defer d.Close()
	content := make([]byte, 71)
	src := "/docker/registry/v2/repositories/src/_layers/sha256/1/link"
	if err := d.Commit(b.Context(), driver.Stage{{Path: src, Content: content}}); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	run(b, 16, func() {
		path := fmt.Sprintf("/docker/registry/v2/repositories/bench/_layers/sha256/%d/link", n.Add(1))
		if err := d.Commit(b.Context(), driver.Stage{{Path: path, Content: content, Like: src}}); err != nil {
			b.Error(err)
		}
	})
}
