package registry

import (
	"fmt"
	"testing"

	"slipway/registry/internal/layout"
)

// A tag that a dead process has in its hands goes with its manifest, and is not
// back later; and so does one that was put back meanwhile.
func TestDeletionTakesTagsOfTheDead(t *testing.T) {
	for kind, open := range drivers {
		for _, sole := range []bool{false, true} {
			for _, back := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s: sole %v, back %v", kind, sole, back), func(t *testing.T) {
					r := New(Options{Driver: open(t), DeleteEnabled: true})
					if sole {
						leave, err := r.Serve(t.Context())
						check(t, err)
						defer leave()
					}
					repo := r.Repository("a")
					pushImage(t, repo, "kept", "z")
					d, other := pushImage(t, repo, "one", "x"), pushImage(t, repo, "other", "y")
					pushImage(t, repo, "two.tmp", "x")
					for _, tag := range []string{"one", "two.tmp"} {
						check(t, r.driver.SetAside(t.Context(), layout.TagCurrent("a", tagged(tag).Tag), layout.ExpiringTag("a", tagged(tag).Tag)))
					}
					_, err := repo.DeleteManifest(t.Context(), other)
					check(t, err)
					if back {
						r.Recover(t.Context())
						wantWholeTags(t, repo, []string{"kept", "one", "two.tmp"})
					}
					removed, err := repo.DeleteManifest(t.Context(), d)
					check(t, err)
					if len(removed) != 2 {
						t.Errorf("removed %q", removed)
					}
					r.Recover(t.Context())
					wantWholeTags(t, repo, []string{"kept"})
				})
			}
		}
	}
}
