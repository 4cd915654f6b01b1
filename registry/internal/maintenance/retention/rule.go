// Package retention deletes tags that are no longer needed, by rules.
//
// It deletes tags only. The manifests and blobs that nothing else needs then
// are left to the collection of garbage.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
)

// Rule decides about the tags that it selects. Of several rules that select a
// tag the first decides.
type Rule struct {
	Repositories pattern.Names
	Tags         pattern.Tags // empty selects all tags

	Delete       bool         // those that nothing below keeps; otherwise all are kept
	Keep         pattern.Tags // always kept
	Newest       int          // number of tags kept in each repository, those pushed last
	NewerThan    time.Duration
	PulledWithin time.Duration
}

// selects reports whether the rule is about the tag.
func (r *Rule) selects(name oci.Name, tag oci.Tag) bool {
	return (r.Tags.Empty() || r.Tags.Match(tag)) && r.Repositories.Match(name)
}

// Verdict is the decision about one tag, and why.
type Verdict struct {
	Repository oci.Name   `json:"repository"`
	Tag        oci.Tag    `json:"tag"`
	Digest     oci.Digest `json:"digest"`
	Pushed     time.Time  `json:"pushed"`
	Pulled     *time.Time `json:"pulled,omitempty"` // nil = unknown
	Delete     bool       `json:"delete"`
	Rule       int        `json:"rule,omitempty"` // the one that decided, counted from 1; 0 = none
	Why        string     `json:"why"`

	subject string // of a tag that clients made for what belongs to a manifest: its digest, or the begin of it
	begins  bool   // a rule asked for pulls and none is known

	modified time.Time // date of the link
	recorded bool      // Pushed is from the tag's push record, not from the date of the link
}

// RuleKey names a rule that is counted from 1 as the configuration does: rules[0].
func RuleKey(rule int) string { return fmt.Sprintf("rules[%d]", rule-1) }

// judge decides about the tags of one repository, except those that belong to
// a manifest: they are kept or deleted with it. The error is that of the storage.
func (p *planner) judge(ctx context.Context, name oci.Name, tags []tree.Tag) ([]*Verdict, error) {
	verdicts := make([]*Verdict, 0, len(tags))
	byRule := make([][]*Verdict, len(p.rules))
	var dated []*Verdict
	for i := range tags {
		v := p.verdict(name, &tags[i])
		verdicts = append(verdicts, v)
		if v.Why != "" {
			continue
		}
		if there, err := p.hasManifest(ctx, v); err != nil {
			return nil, err
		} else if !there {
			v.Why = "its manifest is missing; see registry verify"
			continue
		}
		byRule[v.Rule-1] = append(byRule[v.Rule-1], v)
		if r := &p.rules[v.Rule-1]; r.Newest == 0 && r.NewerThan == 0 { // it does not depend on when tags were pushed
			continue
		}
		var err error
		if v.Pushed, v.recorded, err = tags[i].Pushed(ctx, p.store, name); err != nil {
			return nil, err
		}
		dated = append(dated, v)
	}
	if same, all := sameDate(dated); !p.trustDates && same > 0 {
		return nil, fmt.Errorf("%d of %d tags without a push record have dates within one minute: a copy or restore of the storage seems to have changed their dates, "+
			"so nothing is deleted here; to use the dates anyway, run registry retention apply --trust-dates", same, all)
	}
	for i, asked := range byRule {
		p.rules[i].decide(asked, p.now)
	}
	return verdicts, nil
}

// sameDate returns how many tags without a push record have dates within one minute,
// if they are of three or more images and most of the all tags without one; otherwise 0.
// A copy that doesn't keep dates leaves tags like that: their order says nothing, and they
// seem newer than tags with a record.
func sameDate(tags []*Verdict) (same, all int) {
	undated := slices.DeleteFunc(slices.Clone(tags), func(v *Verdict) bool { return v.recorded })
	slices.SortFunc(undated, func(a, b *Verdict) int { return a.modified.Compare(b.modified) })
	most := 0
	for first, last := 0, 0; last < len(undated); last++ {
		for undated[last].modified.Sub(undated[first].modified) > time.Minute {
			first++
		}
		group := undated[first : last+1]
		images := map[oci.Digest]bool{}
		for _, v := range group {
			images[v.Digest] = true
			if len(images) == 3 {
				most = max(most, len(group))
				break
			}
		}
	}
	if 2*most <= len(undated) {
		return 0, len(undated)
	}
	return most, len(undated)
}

// hasManifest reports whether a tag points at anything. One that does not takes no
// place among the newest, which would cost an image its own.
func (p *planner) hasManifest(ctx context.Context, v *Verdict) (bool, error) {
	_, err := p.store.Stat(ctx, layout.RevisionLink(v.Repository, v.Digest))
	if errors.Is(err, storage.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// verdict finds the rule for a tag and looks at what holds under any rule. It
// explains why unless a rule has to decide.
func (p *planner) verdict(name oci.Name, t *tree.Tag) *Verdict {
	v := &Verdict{Repository: name, Tag: t.Name, Digest: t.Target, Pushed: t.Modified, modified: t.Modified, subject: subjectOf(t.Name)}
	v.Rule = 1 + slices.IndexFunc(p.rules, func(r Rule) bool { return r.selects(name, t.Name) })
	if at, ok := p.pulls.Of(name, t.Target); ok {
		v.Pulled = &at
	}
	switch {
	case t.Err != nil:
		v.Why = "its link cannot be read: " + t.Err.Error()
	case p.immutable(name, t.Name):
		v.Why = "it is immutable"
	case v.Rule == 0 && v.subject != "":
		v.Why = belongs
	case v.Rule == 0:
		v.Why = "no rule selects it"
	case !p.rules[v.Rule-1].Delete:
		v.Why = "the rule keeps all"
	case p.rules[v.Rule-1].Keep.Match(t.Name):
		v.Why = "it is always kept"
	case v.subject != "":
		v.Why = belongs
	case t.Modified.IsZero():
		v.Why = "the storage does not know when it was pushed"
	}
	return v
}

// decide judges the tags of one repository that are the rule's to judge.
func (r *Rule) decide(tags []*Verdict, now time.Time) {
	slices.SortFunc(tags, func(a, b *Verdict) int {
		return cmp.Or(b.Pushed.Compare(a.Pushed), cmp.Compare(b.Tag, a.Tag))
	})
	for i, v := range tags {
		v.begins = r.PulledWithin > 0 && v.Pulled == nil
		switch {
		case i < r.Newest:
			v.Why = fmt.Sprintf("it is the %s newest; %s", ordinal(i+1), kept(r.Newest))
		case r.NewerThan > 0 && v.Pushed.After(now.Add(-r.NewerThan)):
			v.Why = "it was pushed " + ago(now, v.Pushed) + ", within " + short(r.NewerThan)
		case v.begins:
			v.Why = "its pulls are unknown: their time begins now"
		case r.PulledWithin > 0 && v.Pulled.After(now.Add(-r.PulledWithin)):
			v.Why = "it was pulled " + ago(now, *v.Pulled) + ", within " + short(r.PulledWithin)
		default:
			v.Delete, v.Why = true, r.reasons(i, v, now)
		}
	}
}

// reasons explains why nothing of the rule keeps the tag.
func (r *Rule) reasons(place int, v *Verdict, now time.Time) string {
	why := "pushed " + ago(now, v.Pushed)
	if r.Newest > 0 {
		why += fmt.Sprintf(", %s newest; %s", ordinal(place+1), kept(r.Newest))
	}
	if r.NewerThan > 0 {
		why += ", not within " + short(r.NewerThan)
	}
	if r.PulledWithin > 0 {
		why += ", last pulled " + ago(now, *v.Pulled) + ", not within " + short(r.PulledWithin)
	}
	return why
}

func kept(n int) string {
	if n == 1 {
		return "1 is kept"
	}
	return fmt.Sprint(n, " are kept")
}

// ordinal writes 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// ago describes how long ago something was, as people say it.
func ago(now, at time.Time) string {
	switch d := now.Sub(at); {
	case d < 0:
		return "in the future"
	case d >= 2*day:
		return short(d.Truncate(day)) + " ago"
	case d >= 2*time.Hour:
		return short(d.Truncate(time.Hour)) + " ago"
	default:
		return short(d.Truncate(time.Second)) + " ago"
	}
}

const day = 24 * time.Hour

// short writes a time of a rule as people do.
func short(d time.Duration) string {
	switch {
	case d >= 2*day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	default:
		return d.String()
	}
}
