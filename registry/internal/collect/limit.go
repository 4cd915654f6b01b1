package collect

import (
	"context"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	// renewAfter is more than how old a link on files may be that is not renewed when
	// it is confirmed to a client; object stores take a quarter of the age.
	renewAfter = time.Second
	// skew is how much the clocks of a storage and of this machine may differ: a minute, and
	// what a slow answer hides.
	skew = time.Minute + 5*time.Second
	// future is what no renewal can have written: the date is wrong.
	future = time.Minute
)

// limit says what is young: a link that was renewed since, on which a client may rely
// for the grace period; the zero time = nothing is. While the run is exclusive nobody relies
// on anything; nor does anybody later on what was confirmed before it began.
func (r *run) limit() time.Time {
	switch {
	case r.Age <= 0 || r.alone.Load() && !r.KeepAge:
		return time.Time{}
	case r.exclusive != nil && !r.KeepAge:
		return r.begun.Add(-skew)
	}
	return r.begun.Add(-r.Age - max(r.Age/4, renewAfter))
}

// ages says whether it matters when links were renewed.
func (r *run) ages() bool { return !r.limit().IsZero() }

// young says whether a client may rely on a link that was renewed then.
func (r *run) young(modified time.Time) bool {
	limit := r.limit()
	if limit.IsZero() {
		return false
	}
	if modified.Nanosecond() == 0 { // the storage may count whole seconds
		modified = modified.Add(2 * time.Second)
	}
	return modified.Add(50 * time.Millisecond).After(limit) // a tick of its clock
}

// age returns when a link was renewed. One dated in the future is renewed now: so it
// is young, as it may have to be, and grows old from now on.
func (r *run) age(ctx context.Context, info storage.Info, d oci.Digest) (time.Time, error) {
	now := time.Now() // a long run meets links that were renewed long after it began
	if !r.ages() || info.Modified.Before(now.Add(future)) {
		return info.Modified, nil
	}
	r.count(func(p *Report) { p.Future++ })
	err := r.apply(ctx, storage.Stage{{Key: info.Key, Content: layout.Link(d), Renew: true}})
	if absent(err) {
		err = nil
	}
	return now, err
}
