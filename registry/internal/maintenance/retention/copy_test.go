package retention

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
)

// order is the order in which the images of these tests are pushed, a day apart,
// newest last.
var order = []string{"9f3", "c41", "77a", "e02", "1bd"}

// copied is a store to which all objects were copied in the order of their keys, a
// second apart, as object stores' copy tools do. Dates aren't kept.
func (s *store) copied(skip func(key string) bool) *store {
	s.t.Helper()
	to := newStore(s.t, s.Rules...)
	to.now = s.now
	objects := map[string]string{}
	var keys []string
	for info, err := range s.memory.List(s.t.Context(), layout.Root, storage.ListOptions{Flat: true}) {
		check(s.t, err)
		content, _, err := storage.Read(s.t.Context(), s.memory, info.Key, 1<<20)
		check(s.t, err)
		if !skip(info.Key) {
			keys, objects[info.Key] = append(keys, info.Key), string(content)
		}
	}
	for i, key := range keys {
		to.memory.SetClock(func() time.Time { return s.now.Add(time.Duration(i) * 100 * time.Millisecond) })
		to.write(map[string]string{key: objects[key]})
	}
	to.memory.SetClock(func() time.Time { return s.now.Add(time.Hour) })
	return to
}

func TestCopyKeepsPushTimes(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, Newest: 3})
	for i, tag := range order {
		s.image("ci/app", tag, len(order)-i, "", "layer of "+tag)
	}
	const want = "ci/app:9f3 ci/app:c41"
	if got := goes(s.plan()); got != want {
		t.Fatalf("before the copy goes %q, want %q", got, want)
	}
	to := s.copied(func(string) bool { return false })
	p := to.plan()
	if got := goes(p); got != want || len(p.Problems) > 0 {
		t.Fatalf("after the copy goes %q, want %q; problems %q", got, want, p.Problems)
	}
	if r := to.apply(p); r.Deleted != 2 || r.Changed != 0 {
		t.Errorf("applied: %+v", r)
	}
}

// Without push records, dates that a copy has set decide nothing, until an operator
// says so.
func TestDatesOfACopyDecideNothing(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, Newest: 3})
	for i, tag := range order {
		s.image("ci/app", tag, len(order)-i, "", "layer of "+tag)
	}
	to := s.copied(func(key string) bool { return strings.HasSuffix(key, "/pushed") })
	p := to.plan()
	if goes(p) != "" || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "ci/app: 5 of 5 tags without a push record have dates within one minute") {
		t.Errorf("goes %q, problems %q", goes(p), p.Problems)
	}
	to.TrustDates = true
	if p := to.plan(); p.Deleted != 2 || len(p.Problems) > 0 {
		t.Errorf("with trusted dates: %d go, problems %q", p.Deleted, p.Problems)
	}
}

func TestSameDate(t *testing.T) {
	at := time.Now()
	list := func(minutes ...int) (tags []*Verdict) {
		for i, m := range minutes {
			tags = append(tags, &Verdict{Digest: sum(fmt.Sprint(i)), modified: at.Add(time.Duration(m) * time.Minute)})
		}
		return tags
	}
	oneImage := list(0, 0, 0, 0)
	for _, v := range oneImage {
		v.Digest = sum("one")
	}
	recorded := list(0, 0, 0, 1, 2)
	mixed := list(-9, -8, -7, -6, 0, 0, 0)
	for _, v := range slices.Concat(recorded[:3], mixed[:4]) {
		v.recorded = true
	}
	for name, tt := range map[string]struct {
		tags []*Verdict
		want int
	}{
		"no tags":              {nil, 0},
		"a day's builds":       {list(0, 5, 10, 15), 0},
		"two at the same time": {list(0, 0), 0},
		"tags of one image":    {oneImage, 0},
		"push records":         {recorded, 0},
		"copied beside pushed": {mixed, 3},
		"three in a minute":    {list(0, 1, 0), 3},
		"most in one minute":   {list(0, 9, 9, 9, 20), 3},
		"half in one minute":   {list(0, 9, 9, 9, 20, 30), 0},
	} {
		if got, _ := sameDate(tt.tags); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// A record that distribution has outdated by moving the tag isn't used.
func TestRecordOfAnotherImage(t *testing.T) {
	s := newStore(t, Rule{Repositories: names(t, "**"), Delete: true, NewerThan: day})
	old := s.image("a", "t", 9, "", "x")
	moved := s.image("a", "", 0, "", "y")
	s.write(map[string]string{layout.TagCurrent("a", "t"): string(moved)})
	if p := s.plan(); goes(p) != "" {
		t.Errorf("the tag that was moved today goes; the record is of %s", old)
	}
	for _, bad := range []string{"", "garbage", strings.Repeat("x", 2*layout.MaxPushed)} {
		s.write(map[string]string{layout.TagPushed("a", "t"): bad})
		if p := s.plan(); goes(p) != "" || len(p.Problems) > 0 {
			t.Errorf("with the record %.20q: goes %q, problems %q", bad, goes(p), p.Problems)
		}
	}
}
