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

// setLimit decides what is young in this run: a link that was confirmed to a client
// within the grace period, who may rely on it. While the run is exclusive nobody relies on
// anything; nor does anybody later on what was confirmed before it began.
func (r *run) setLimit() {
	r.limit = r.begun.Add(-r.Age - max(r.Age/4, renewAfter))
	switch {
	case r.Age <= 0 || r.exclusive != nil && !r.KeepAge:
		r.limit = time.Time{}
	case r.again && !r.KeepAge:
		r.limit = r.begun.Add(-skew)
	}
}

// ages says whether it matters when links were renewed.
func (r *run) ages() bool { return !r.limit.IsZero() }

// young says whether a client may rely on a link that was renewed then.
func (r *run) young(modified time.Time) bool {
	if !r.ages() {
		return false
	}
	if modified.Nanosecond() == 0 { // the storage may count whole seconds
		modified = modified.Add(2 * time.Second)
	}
	return modified.Add(50 * time.Millisecond).After(r.limit) // a tick of its clock
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
