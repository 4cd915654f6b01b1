package pageindex

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
)

const (
	// share is the rest of a repository after a scan, as a multiple of the scan's duration.
	share = 10
	// easy is the rest of a pass after a scan, as a multiple of the scan's duration, except in the first pass.
	easy = 3
	// checkBlobs is the time after which a pass finds out again which blobs exist: distribution's
	// collection leaves links to blobs that it has deleted.
	checkBlobs = 24 * time.Hour
	// settle is the time for which touches gather.
	settle = 100 * time.Millisecond
	// scanTimeout bounds the scan of one repository.
	scanTimeout = 10 * time.Minute
)

// Run keeps the index current until ctx ends. While lists are being viewed, it passes over all
// repositories once in each interval; and it reads those that were touched.
func (x *Index) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
			if again == nil {
				again = time.After(settle)
			}
			x.pass(ctx)
		case <-again:
			again = nil
			if wait := x.readTouched(ctx); wait > 0 {
				again = time.After(wait)
			}
		}
	}
}

// pass passes over all repositories if that is wanted and due.
func (x *Index) pass(ctx context.Context) {
	x.mu.Lock()
	due := x.wanted && (x.tried.IsZero() || time.Since(x.tried) > x.o.Interval)
	x.wanted = false
	if due {
		x.begun, x.tried = true, time.Now()
	}
	x.mu.Unlock()
	if !due {
		return
	}
	if err := x.Refresh(ctx); err != nil && ctx.Err() == nil {
		x.o.Log.Warn("cannot refresh the index of the repositories; the pages show what was read before", zap.Error(err))
	}
}

// Refresh reads all repositories. What it can't read stays as it was.
func (x *Index) Refresh(ctx context.Context) error {
	failed := x.readPulls(ctx)
	first := x.Complete().IsZero()
	if time.Since(x.checked) > checkBlobs {
		if err := x.listBlobs(ctx); err != nil {
			return err
		}
		defer func() { x.existing = nil }()
	}
	known := map[oci.Name]bool{}
	for _, r := range x.Repositories(Query{}).Repositories {
		known[r.Name] = true
	}
	for name, err := range tree.Repositories(ctx, x.o.Store) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		delete(known, name)
		began := time.Now()
		if err := x.readOne(ctx, name); err != nil {
			failed = err
		}
		x.readTouched(ctx)
		if !first {
			pause(ctx, easy*time.Since(began))
		}
	}
	for name := range known { // they are gone
		if err := x.readOne(ctx, name); err != nil {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	if x.existing != nil {
		x.checked = time.Now()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.complete = time.Now()
	return nil
}

// readTouched reads the repositories that were touched, except those that rest, and returns how
// long the first of these rests yet.
func (x *Index) readTouched(ctx context.Context) (wait time.Duration) {
	x.mu.Lock()
	touched := slices.Collect(maps.Keys(x.touched))
	x.mu.Unlock()
	for _, name := range touched {
		x.mu.Lock()
		rest := time.Until(x.rest[name])
		if rest <= 0 {
			delete(x.touched, name)
		}
		x.mu.Unlock()
		if rest > 0 {
			if wait == 0 || rest < wait {
				wait = rest
			}
			continue
		}
		if err := x.readOne(ctx, name); err != nil && ctx.Err() == nil {
			x.o.Log.Warn("cannot read a repository for the index", zap.String("repository", string(name)), zap.Error(err))
		}
	}
	return wait
}

// readOne reads a repository into the index.
func (x *Index) readOne(ctx context.Context, name oci.Name) error {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	began := time.Now()
	s, err := x.scan(ctx, name)
	took := time.Since(began)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		err = x.contents.put(s)
	}
	maps.DeleteFunc(x.rest, func(_ oci.Name, until time.Time) bool { return time.Now().After(until) })
	x.rest[name] = time.Now().Add(max(share*took, settle))
	return err
}

// readPulls reads when manifests were last pulled.
func (x *Index) readPulls(ctx context.Context) error {
	if x.o.Pulls == nil {
		return nil
	}
	p, err := x.o.Pulls(ctx)
	if err == nil {
		x.pulls = p
	}
	return err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// listBlobs finds out which blobs exist, and their sizes, a thousand a request on an object store.
func (x *Index) listBlobs(ctx context.Context) error {
	existing := map[key]int64{}
	for b, err := range tree.Blobs(ctx, x.o.Store, "") {
		if err != nil {
			return err
		}
		if existing[x.key(b.Digest)] = b.Size; len(existing) > maxBlobs {
			return errTooMany
		}
	}
	x.existing = existing
	return nil
}
