package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

func TestHistory(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		one := pushImage(t, repo.By("ann"), "v1", "one")
		two := pushImage(t, repo.By("bob"), "v1", "two")
		pushImage(t, repo.By("ci"), "v1", "two")
		_, err := repo.DeleteManifest(t.Context(), one)
		check(t, err)
		got, err := repo.History(t.Context(), "v1")
		check(t, err)
		describe := func(all []Target) (lines []string) {
			for _, x := range all {
				if time.Since(x.At) > time.Hour {
					t.Errorf("%+v has no date", x)
				}
				lines = append(lines, fmt.Sprint(x.Digest, " ", x.By, " ", x.Current, " ", x.Available))
			}
			return lines
		}
		want := []string{fmt.Sprint(two, " ci true true"), fmt.Sprint(one, " ann false true")}
		if lines := describe(got); !slices.Equal(lines, want) {
			t.Errorf("history is %q, want %q", lines, want)
		}
		_, err = repo.By("eve").Restore(t.Context(), Selection{Tag: "v1", Digest: one})
		check(t, err)
		got, err = repo.History(t.Context(), "v1")
		check(t, err)
		want = []string{fmt.Sprint(one, " eve true true"), fmt.Sprint(two, " ci false true"), fmt.Sprint(one, " ann false true")}
		if lines := describe(got); !slices.Equal(lines, want) {
			t.Errorf("history is %q, want %q", lines, want)
		}
		_, err = repo.History(t.Context(), "v2")
		wantCode(t, err, oci.CodeManifestUnknown)
	})
}

// What distribution has pushed is part of the history.
func TestHistoryOfDistribution(t *testing.T) {
	undoing(t, func(t *testing.T, r *Registry) {
		repo := r.Repository("a")
		one := pushImage(t, repo, "v1", "one")
		two := pushImage(t, repo, "v2", "two")
		removeObject(t, r.opts.Store, layout.TagPushed("a", "v1"))
		putObject(t, r.opts.Store, layout.TagIndex("a", "v1", two), string(two))
		putObject(t, r.opts.Store, layout.TagCurrent("a", "v1"), string(two))
		got, err := repo.History(t.Context(), "v1")
		check(t, err)
		if len(got) != 2 || got[0].Digest == got[1].Digest || got[0].By != "" || !got[0].Available || !got[1].Available {
			t.Errorf("history is %+v", got)
		}
		if at := slices.IndexFunc(got, func(x Target) bool { return x.Current }); at < 0 || got[at].Digest != two {
			t.Errorf("%s isn't current in %+v; the other is %s", two, got, one)
		}
	})
}
