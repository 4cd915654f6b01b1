package registry

import (
	"context"
	"fmt"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// BenchmarkDeleteManifest deletes manifests with one tag each in repositories of
// that many tags.
func BenchmarkDeleteManifest(b *testing.B) {
	for _, tags := range []int{10, 10_000} {
		b.Run(fmt.Sprint(tags, " tags"), func(b *testing.B) {
			ctx, r := context.Background(), newRegistry(stores["filesystem"](b), Options{DeleteEnabled: true})
			repo := r.Repository("a")
			kept := pushImage(b, repo, "kept", "kept")
			for i := range tags {
				link := storage.Change{Key: layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i))), Content: layout.Link(kept), Ephemeral: true}
				check(b, r.store.Apply(ctx, nil, storage.Stage{link}))
			}
			_, err := repo.DeleteManifest(ctx, pushImage(b, repo, "first", "first"))
			check(b, err)
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				d := pushImage(b, repo, "gone", fmt.Sprint(n))
				b.StartTimer()
				if _, err := repo.DeleteManifest(ctx, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
