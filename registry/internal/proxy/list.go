package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

// listed is a list of the upstream, and when it came.
type listed struct {
	tags      []string
	referrers []oci.Descriptor
	at        time.Time
}

// weight is about how much memory the list takes.
func (l *listed) weight() int {
	n := 500
	for _, tag := range l.tags {
		n += 16 + len(tag)
	}
	for i := range l.referrers {
		d := &l.referrers[i]
		n += 400 + len(d.MediaType) + len(d.ArtifactType)
		for _, u := range d.URLs {
			n += 16 + len(u)
		}
		for k, v := range d.Annotations {
			n += 64 + len(k) + len(v)
		}
	}
	return n
}

type tagsKey struct{ name oci.Name }

type referrersKey struct {
	name    oci.Name
	subject oci.Digest
}

// Tags implements registry.Upstream: the tags of the upstream, or those that are cached if
// it fails.
func (c *Cache) Tags(ctx context.Context, r registry.Repository) (tags []string, warning string, err error) {
	s := c.source(r.Name())
	l, warning, err := c.list(ctx, s, tagsKey{r.Name()}, func(ctx context.Context) (l listed, err error) {
		tags, err := s.Client.Tags(ctx, s.remote(r.Name()))
		for _, t := range tags {
			l.tags = append(l.tags, string(t))
		}
		slices.Sort(l.tags)
		l.tags = slices.Compact(l.tags)
		return l, err
	})
	if err == nil {
		return l.tags, warning, nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	cached, _, failed := r.Tags(ctx, -1, "")
	if failed != nil {
		return nil, "", s.fault(err, oci.CodeNameUnknown)
	}
	return cached, s.staleList(orInvalid(err)), nil
}

// Referrers implements registry.Upstream: those of the upstream, or those that are cached
// if it fails.
func (c *Cache) Referrers(ctx context.Context, r registry.Repository, subject oci.Digest) (descs []oci.Descriptor, warning string, err error) {
	s := c.source(r.Name())
	l, warning, err := c.list(ctx, s, referrersKey{r.Name(), subject}, func(ctx context.Context) (l listed, err error) {
		l.referrers, err = s.Client.Referrers(ctx, s.remote(r.Name()), subject)
		slices.SortFunc(l.referrers, func(a, b oci.Descriptor) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
		l.referrers = slices.CompactFunc(l.referrers, func(a, b oci.Descriptor) bool { return a.Digest == b.Digest })
		return l, err
	})
	if err == nil {
		return l.referrers, warning, nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	warning = s.staleList(orInvalid(err))
	descs, _, err = r.Referrers(ctx, subject, "", "", maxReferrers)
	return descs, warning, err
}

// staleList counts a list that could not be checked, and is what its client is told.
func (s *Source) staleList(reason upstream.Reason) (warning string) {
	s.metrics.stale(reason)
	return s.warning(reason)
}

const maxReferrers = 1000

func orInvalid(err error) upstream.Reason {
	if reason := upstream.ReasonOf(err); reason != "" {
		return reason
	}
	return upstream.Invalid
}

// list is a list that is as fresh as a tag has to be, or one that is older, with a warning.
// The error is an *upstream.Error.
func (c *Cache) list(ctx context.Context, s *Source, key any, get func(context.Context) (listed, error)) (l listed, warning string, err error) {
	l, known := c.lists.get(key)
	if known && c.now().Sub(l.at) < s.TagTTL {
		return l, "", nil
	}
	if until, ok := c.unknown.get(key); ok && c.now().Before(until) {
		return l, "", &upstream.Error{Reason: upstream.NotFound, Err: errors.New("the upstream did not have it a moment ago")}
	}
	reason, left := s.pause()
	if s.Offline {
		reason = offline
	}
	if reason != "" {
		if known {
			return l, s.staleList(reason), nil
		}
		if reason == offline || reason == upstream.Limited {
			return l, "", &upstream.Error{Reason: reason, RetryAfter: left}
		}
	}
	now, err := c.listing.start(c, key, func(ctx context.Context) (listed, error) {
		l, err := get(ctx)
		s.note(err)
		c.noteUnknown(key, err)
		if err == nil {
			l.at = c.now()
			c.lists.put(key, l, l.weight())
		}
		return l, err
	}).wait(ctx)
	if err != nil && known && upstream.ReasonOf(err) != upstream.NotFound && ctx.Err() == nil {
		return l, s.staleList(orInvalid(err)), nil
	}
	return now, "", err
}
