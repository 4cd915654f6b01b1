package registry

import (
	"context"
	"fmt"
	"testing"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// BenchmarkDeleteManifest deletes manifests with one tag each in repositories of
// so many tags.
func BenchmarkDeleteManifest(b *testing.B) {
	for _, tags := range []int{10, 10_000} {
		b.Run(fmt.Sprint(tags, " tags"), func(b *testing.B) {
			ctx, r := context.Background(), New(Options{Driver: drivers["filesystem"](b), DeleteEnabled: true})
			leave, err := r.Serve(ctx)
			check(b, err)
			defer leave()
			repo := r.Repository("a")
			kept := pushImage(b, repo, "kept", "kept")
			for i := range tags {
				link := driver.Change{Path: layout.TagCurrent("a", oci.Tag(fmt.Sprint("t", i))), Content: layout.Link(kept)}
				check(b, r.driver.WriteScratch(ctx, link.Path, link.Content))
			}
			_, err = repo.DeleteManifest(ctx, pushImage(b, repo, "first", "first"))
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
