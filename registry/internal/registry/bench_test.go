package registry

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

func benchRegistry(b *testing.B) *Registry {
	return New(Options{Driver: drivers["filesystem"](b), DeleteEnabled: true})
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

func BenchmarkPushBlob(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			repo := benchRegistry(b).Repository("org/app")
			rest := strings.Repeat("x", size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				pushBlob(b, repo, fmt.Sprint(i)+rest)
			}
		})
	}
}

func BenchmarkMount(b *testing.B) {
	ctx, r := context.Background(), benchRegistry(b)
	d := pushBlob(b, r.Repository("org/base"), "x").Digest
	for i := 0; b.Loop(); i++ {
		if _, err := r.Repository(oci.Name(fmt.Sprint("org/", i%100))).MountBlob(ctx, d, "org/base", nil); err != nil {
			b.Fatal(err)
		}
	}
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
	ctx, repo := context.Background(), New(Options{Driver: drivers["memory"](b)}).Repository("org/app")
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
		_, err = u.Append(ctx, io.LimitReader(zeros{}, 64<<20))
		check(b, err)
		check(b, u.Cancel(ctx))
		check(b, u.Close())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
