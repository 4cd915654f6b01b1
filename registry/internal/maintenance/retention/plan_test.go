package retention

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
)

func TestRules(t *testing.T) {
	all := names(t, "**")
	tests := []struct {
		name  string
		rules []Rule
		want  string
	}{
		{"no rule", nil, ""},
		{"a rule that does not say delete", []Rule{{Repositories: all, Newest: 1}}, ""},
		{"another repository", []Rule{{Repositories: names(t, "b"), Delete: true, Newest: 1}}, ""},
		{"newest", []Rule{{Repositories: all, Delete: true, Newest: 2}}, "a:t3 a:t4 a:t5"},
		{"newest beside what is always kept", []Rule{{Repositories: all, Delete: true, Newest: 2, Keep: tags(t, "t1", "t4")}}, "a:t5"},
		{"newest of those selected", []Rule{{Repositories: all, Delete: true, Newest: 1, Tags: tags(t, "t[345]")}}, "a:t4 a:t5"},
		{"newer than", []Rule{{Repositories: all, Delete: true, NewerThan: 3*day + time.Hour}}, "a:t4 a:t5"},
		{"newest or newer than", []Rule{{Repositories: all, Delete: true, Newest: 4, NewerThan: 3 * day}}, "a:t5"},
		{"pulled within", []Rule{{Repositories: all, Delete: true, PulledWithin: 10 * day}}, "a:t2"},
		{"pulled within, or newest", []Rule{{Repositories: all, Delete: true, PulledWithin: 10 * day, Newest: 2}}, ""},
		{"all of a kind", []Rule{{Repositories: all, Delete: true, Tags: tags(t, "t1|t2")}}, "a:t1 a:t2"},
		{"the first rule decides", []Rule{{Repositories: names(t, "a"), Tags: tags(t, "t[45]")}, {Repositories: all, Delete: true, Newest: 1}}, "a:t2 a:t3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, tt.rules...)
			for i := range 5 {
				d := s.image("a", fmt.Sprint("t", i+1), i+1, "", fmt.Sprint("layer", i))
				switch i {
				case 0:
					s.pulled("a", d, 1)
				case 1:
					s.pulled("a", d, 11)
				}
			}
			before := s.plan()
			if got := goes(before); got != tt.want {
				t.Fatalf("goes %q, want %q", got, tt.want)
			}
			if r := s.apply(before); r.Deleted != before.Deleted || r.Changed != 0 {
				t.Errorf("applied: %+v, planned %d", r, before.Deleted)
			}
			left, _, err := s.Registry.Repository("a").Tags(t.Context(), -1, "")
			check(t, err)
			if len(left) != 5-before.Deleted {
				t.Errorf("left are %v", left)
			}
			if got := goes(s.plan()); got != "" {
				t.Errorf("a second time goes %q", got)
			}
		})
	}
}

// A tag whose manifest is missing takes no place among the newest, and stays: it
// describes what is missing.
func TestDanglingTagsAreLeftAlone(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, Newest: 1})
	for i := range 3 {
		s.image("a", fmt.Sprint("t", i), i+1, "", fmt.Sprint("layer", i))
	}
	for _, days := range []int{0, 9} {
		d := s.image("a", fmt.Sprint("gone", days), days, "", fmt.Sprint("gone", days))
		s.remove(layout.RevisionLink("a", d))
	}
	p := s.plan()
	if got := goes(p); got != "a:t1 a:t2" || len(p.Problems) > 0 {
		t.Errorf("goes %q, problems %q", got, p.Problems)
	}
	if v := p.of(t, "gone9"); v.Why != "its manifest is missing; see registry verify" {
		t.Errorf("it stays because %s", v.Why)
	}
}

// Of two rules that select a tag, the first decides.
func TestFirstRuleDecides(t *testing.T) {
	s := newStore(t,
		Rule{Repositories: names(t, "a"), Tags: tags(t, "v.*")},
		Rule{Repositories: names(t, "*"), Delete: true, NewerThan: day})
	s.image("a", "v1", 9, "", "x")
	s.image("a", "w", 9, "", "x")
	p := s.plan()
	v := p.of(t, "w")
	if !v.Delete || v.Rule != 2 || v.Why != "pushed 9 days ago, not within 24 hours" {
		t.Errorf("got %+v", v)
	}
	if v := p.of(t, "v1"); v.Delete || v.Rule != 1 || v.Why != "the rule keeps all" {
		t.Errorf("got %+v", v)
	}
}

func TestImmutableTagsStay(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: day})
	s.image("safe/a", "v1", 9, "", "x")
	s.image("safe/a", "w1", 9, "", "y")
	if got := goes(s.plan()); got != "safe/a:w1" {
		t.Errorf("goes %q", got)
	}
}

// A tag whose pulls nobody knows has its time from then on that a rule is
// applied.
func TestUnknownPullsCountAsNow(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, PulledWithin: day})
	d := s.image("a", "t", 100, "", "x")
	p := s.plan()
	if v := p.of(t, "t"); v.Delete || v.Why != "its pulls are unknown: their time begins now" {
		t.Errorf("got %+v", v)
	}
	if known, err := s.Pulls.Read(t.Context()); err != nil || !known.Empty() {
		t.Errorf("a plan wrote %v, %v", known, err)
	}
	s.apply(p)
	known, err := s.Pulls.Read(t.Context())
	check(t, err)
	if at, ok := known.Of("a", d); !ok || s.now.Sub(at) > time.Hour {
		t.Errorf("after the first application: %v, %v", at, ok)
	}
	if goes(s.plan()) != "" {
		t.Error("it goes at once")
	}
}

// Tags are deleted even where there is no space to record pulls.
func TestFullDisk(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "ci/**"), Delete: true, NewerThan: day}, Rule{Repositories: names(t, "**"), Delete: true, PulledWithin: day})
	s.Pulls = lastpull.NewFile(&hookedtest.Store{Store: s.memory, OnApply: func([]storage.Stage) error { return storage.ErrNoSpace }})
	s.image("ci/a", "old", 9, "", "x")
	s.image("b", "unknown", 9, "", "x")
	if r := s.apply(s.plan()); r.Deleted != 1 {
		t.Errorf("got %+v", r)
	}
	if got := goes(s.plan()); got != "" {
		t.Errorf("then goes %q", got)
	}
}

// Bytes are freed only if nothing needs them, in whatever repository, and are
// counted once.
func TestBytes(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "ci/**"), Delete: true, NewerThan: day})
	s.image("ci/a", "old", 9, "", strings.Repeat("A", 1000), strings.Repeat("base", 500), strings.Repeat("B", 3000))
	s.image("ci/b", "old", 9, "", strings.Repeat("A", 1000))   // goes too, shares A with the first
	s.image("ci/a", "new", 0, "", strings.Repeat("base", 500)) // stays
	s.image("prod", "x", 99, "", strings.Repeat("B", 3000))    // of no rule
	p := s.plan()
	if got := goes(p); got != "ci/a:old ci/b:old" {
		t.Fatalf("goes %q", got)
	}
	want := int64(1000)
	for _, tag := range []string{"ci/a", "ci/b"} {
		m, err := s.Registry.Repository(oci.Name(tag)).Manifest(t.Context(), oci.Reference{Tag: "old"})
		check(t, err)
		parsed, err := oci.ReadManifest(m.Bytes)
		check(t, err)
		want += m.Size + parsed.Config.Size
	}
	if p.Bytes != want || p.Blobs != 5 || p.Shared != 2000+3000 {
		t.Errorf("%d bytes in %d blobs, %d shared, want %d", p.Bytes, p.Blobs, p.Shared, want)
	}
}

// The layers that an index lists, as the caches of BuildKit do, are bytes too.
func TestBytesOfAnIndexOfBlobs(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "ci/**"), Delete: true, NewerThan: day})
	cache := func(name oci.Name, days int, layers ...string) oci.Digest {
		var list []oci.Descriptor
		for _, l := range layers {
			d := s.blob(name, l)
			d.MediaType = "application/vnd.oci.image.layer.v1.tar"
			list = append(list, d)
		}
		return s.put(name, "cache", days, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": list})
	}
	old := cache("ci/a", 9, strings.Repeat("A", 1000), strings.Repeat("B", 3000))
	cache("prod", 99, strings.Repeat("B", 3000))
	m, err := s.Registry.Repository("ci/a").Manifest(t.Context(), oci.Reference{Digest: old})
	check(t, err)
	if p := s.plan(); goes(p) != "ci/a:cache" || p.Bytes != m.Size+1000 || p.Blobs != 2 || p.Shared != 3000 {
		t.Errorf("goes %q, %d bytes in %d blobs, %d shared", goes(p), p.Bytes, p.Blobs, p.Shared)
	}
}

// Distribution does not look at the digests of layers that lie elsewhere, and
// stores what anybody pushed.
func TestDigestsThatAreNone(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "a"), Delete: true, NewerThan: day})
	m := `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","layers":[{"digest":"x"}]}`
	s.write(map[string]string{layout.BlobData(sum(m)): m, layout.RevisionLink("a", sum(m)): string(sum(m))})
	s.memory.SetClock(func() time.Time { return s.now.AddDate(0, 0, -9) })
	s.write(map[string]string{layout.TagCurrent("a", "old"): string(sum(m))})
	if p := s.plan(); goes(p) != "a:old" || p.Bytes != int64(len(m)) || p.Blobs != 1 {
		t.Errorf("goes %q, %d bytes in %d blobs", goes(p), p.Bytes, p.Blobs)
	}
}

// A manifest that another tag, an index or nobody but its own digest names does
// not go with a tag.
func TestWhatIsHeldIsNotFreed(t *testing.T) {
	for name, hold := range map[string]func(s *store, d oci.Digest){
		"another tag": func(s *store, _ oci.Digest) { s.image("a", "other", 0, "", "x") },
		"an index":    func(s *store, d oci.Digest) { s.index("a", "multi", 0, d) },
		"an index of an index": func(s *store, d oci.Digest) {
			s.index("a", "multi", 0, s.index("a", "", 0, d))
		},
		"another repository": func(s *store, _ oci.Digest) { s.image("b", "", 0, "", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Rule{Repositories: names(t, "a"), Delete: true, NewerThan: day})
			hold(s, s.image("a", "old", 9, "", "x"))
			if p := s.plan(); goes(p) != "a:old" || p.Bytes != 0 {
				t.Errorf("goes %q with %d bytes", goes(p), p.Bytes)
			}
		})
	}
}

// Signatures go with what they sign, and stay with it, however old they are.
func TestCompanions(t *testing.T) {
	for name, tagRule := range map[string][]string{"of all tags": nil, "of some tags": {"new", "old", "gone.*"}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, Newest: 1, Tags: tags(t, tagRule...)})
			companion := func(d oci.Digest, suffix string) string {
				return strings.Replace(string(d), ":", "-", 1) + suffix
			}
			newest := s.image("a", "new", 1, "", "n")
			old := s.image("a", "old", 2, "", "o")
			s.image("a", companion(newest, ".sig"), 50, "", "signature of n")
			sig := s.image("a", companion(old, ".sig"), 0, "", "signature of o")
			s.image("a", companion(sig, ".att"), 0, "", "of the signature")
			s.image("a", companion(old, ""), 0, old, "referrer of o")
			s.image("a", companion(sum("nowhere"), ".sig"), 50, "", "signature of nothing")
			want := strings.Join([]string{"a:old", "a:" + companion(old, ""), "a:" + companion(old, ".sig"), "a:" + companion(sig, ".att")}, " ")
			got := goes(s.plan())
			for _, tag := range strings.Fields(want) {
				if !strings.Contains(" "+got+" ", " "+tag+" ") {
					t.Errorf("%s stays", tag)
				}
			}
			if len(got) != len(want) {
				t.Errorf("goes %q\nwant %q", got, want)
			}
		})
	}
}

// What changes between plan and application is left alone.
func TestChangesSinceThePlan(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: day})
	s.image("a", "moved", 9, "", "x")
	s.image("a", "again", 9, "", "y")
	s.image("a", "gone", 9, "", "z")
	s.image("a", "old", 9, "", "w")
	p := s.plan()
	s.image("a", "moved", 0, "", "other")
	s.image("a", "again", 0, "", "y")
	_, err := s.Registry.Repository("a").DeleteTag(t.Context(), "gone")
	check(t, err)
	if r := s.apply(p); r != (Result{Deleted: 1, Changed: 3}) {
		t.Errorf("got %+v", r)
	}
	left, _, err := s.Registry.Repository("a").Tags(t.Context(), -1, "")
	check(t, err)
	if strings.Join(left, " ") != "again moved" {
		t.Errorf("left are %v", left)
	}
}

// A run for a plan that was shown deletes exactly that, or nothing.
func TestRun_OnlyThePlanShown(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: day})
	s.image("a", "old", 9, "", "x")
	s.image("a", "older", 9, "", "y")
	shown := s.plan()
	_, err := s.Registry.Repository("a").DeleteTag(t.Context(), "older")
	check(t, err)
	s.image("a", "other", 9, "", "z")
	run := func(only string) error {
		o := s.Options
		o.Only = only
		return Run(t.Context(), o, false, zap.NewNop(), nil)
	}
	if err := run(shown.ID()); !errors.Is(err, ErrChanged) || goes(s.plan()) != "a:old a:other" {
		t.Errorf("after a change: %v, still to go %q", err, goes(s.plan()))
	}
	if err := run(s.plan().ID()); err != nil || goes(s.plan()) != "" {
		t.Errorf("the plan that was shown: %v, still to go %q", err, goes(s.plan()))
	}
}

// A repository that cannot be read is left alone, and keeps what it has.
func TestUnreadable(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: day})
	damaged := s.image("bad", "t", 9, "", "shared")
	s.image("bad", "other", 9, "", "own")
	s.image("good", "t", 9, "", "shared", "x")
	s.write(map[string]string{layout.BlobData(damaged): "{}"})
	p := s.plan()
	if goes(p) != "good:t" || len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0], "bad: ") {
		t.Errorf("goes %q, problems %q", goes(p), p.Problems)
	}
	if p.Shared != int64(len("shared")) {
		t.Errorf("shared are %d bytes", p.Shared)
	}
	s.write(map[string]string{layout.TagCurrent("good", "t"): ""})
	if p := s.plan(); goes(p) != "" {
		t.Errorf("a tag without a target goes: %q", goes(p))
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: 20 * day})
		s.image("a", "t", 18, "", "x")
		for d, want := range []int{1, 1, 0} { // not old enough, then only told, then gone
			time.Sleep(day)
			Run(t.Context(), s.Options, d == 1, zap.NewNop(), nil)
			left, _, err := s.Registry.Repository("a").Tags(t.Context(), -1, "")
			check(t, err)
			if len(left) != want {
				t.Errorf("after day %d: %v", d, left)
			}
		}
	})
}
