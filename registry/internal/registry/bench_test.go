package registry

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/oci"
)

func benchRegistry(b *testing.B) *Registry {
	return newRegistry(stores["filesystem"](b), Options{DeleteEnabled: true})
}

func BenchmarkManifestByTag(b *testing.B) {
	ctx, repo := context.Background(), benchRegistry(b).Repository("org/app")
	pushImage(b, repo, "v1", "x")
	for b.Loop() {
		if _, err := repo.Manifest(ctx, tagged("v1")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatBlob(b *testing.B) {
	ctx, repo := context.Background(), benchRegistry(b).Repository("org/app")
	d := pushBlob(b, repo, "x").Digest
	for b.Loop() {
		if _, err := repo.StatBlob(ctx, d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenBlob(b *testing.B) {
	ctx, repo := context.Background(), benchRegistry(b).Repository("org/app")
	d := pushBlob(b, repo, "x").Digest
	for b.Loop() {
		blob, err := repo.OpenBlob(ctx, d)
		if err != nil {
			b.Fatal(err)
		}
		blob.Close()
	}
}

// withCPU runs op in parallel, as many clients do, and reports what it costs in
// CPU: the time of a durable write says more about the disk.
func withCPU(b *testing.B, op func(i int64)) {
	var n atomic.Int64
	b.SetParallelism(8)
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			op(n.Add(1))
		}
	})
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkPushBlob(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			r := benchRegistry(b)
			rest := strings.Repeat("x", size)
			b.SetBytes(int64(size))
			withCPU(b, func(i int64) {
				repo, content := r.Repository(oci.Name(fmt.Sprint("org/", i%16))), fmt.Sprint(i)+rest
				id := start(b, repo)
				u, err := repo.ResumeUpload(context.Background(), id, UploadPoint{})
				check(b, err)
				defer u.Close()
				_, err = u.Append(context.Background(), strings.NewReader(content), -1)
				check(b, err)
				_, err = u.Commit(context.Background(), sum(content))
				check(b, err)
			})
		})
	}
}

func BenchmarkMount(b *testing.B) {
	ctx, r := context.Background(), benchRegistry(b)
	var have [16]oci.Digest
	for i := range have {
		have[i] = pushBlob(b, r.Repository("org/base"), fmt.Sprint(i)).Digest
	}
	withCPU(b, func(i int64) {
		_, err := r.Repository(oci.Name(fmt.Sprint("org/", i/16))).MountBlob(ctx, have[i%16], "org/base", nil)
		check(b, err)
	})
}

func BenchmarkPutManifest(b *testing.B) {
	ctx, repo := context.Background(), benchRegistry(b).Repository("org/app")
	m := simpleImage(b, repo, "x")
	for i := 0; b.Loop(); i++ {
		m.Annotations = map[string]string{"i": fmt.Sprint(i)}
		if _, err := repo.PutManifest(ctx, tagged("v1"), "", m.bytes(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTags(b *testing.B) {
	ctx, repo := context.Background(), newRegistry(stores["memory"](b), Options{}).Repository("org/app")
	m := simpleImage(b, repo, "x")
	for i := range 10_000 {
		put(b, repo, tagged(fmt.Sprint("v", i)), m)
	}
	for b.Loop() {
		if tags, _, err := repo.Tags(ctx, -1, ""); err != nil || len(tags) != 10_000 {
			b.Fatal(len(tags), err)
		}
	}
}

func BenchmarkUploadStream(b *testing.B) {
	ctx, repo := context.Background(), benchRegistry(b).Repository("org/app")
	b.SetBytes(64 << 20)
	for b.Loop() {
		u, err := repo.StartUpload(ctx, "")
		check(b, err)
		_, err = u.Append(ctx, io.LimitReader(zeros{}, 64<<20), -1)
		check(b, err)
		check(b, u.Cancel(ctx))
		check(b, u.Close())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
