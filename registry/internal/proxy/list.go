package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

// listed is a list from the upstream, and when it arrived.
type listed struct {
	tags      []string
	referrers []oci.Descriptor
	at        time.Time
}

// weight estimates the memory that the list takes.
func (l *listed) weight() int64 {
	n := int64(500)
	for _, tag := range l.tags {
		n += int64(16 + len(tag))
	}
	for i := range l.referrers {
		n += int64(descriptorWeight(&l.referrers[i]))
	}
	return n
}

func descriptorWeight(d *oci.Descriptor) int {
	n := 400 + len(d.MediaType) + len(d.ArtifactType)
	for _, u := range d.URLs {
		n += 16 + len(u)
	}
	for k, v := range d.Annotations {
		n += 64 + len(k) + len(v)
	}
	return n
}

type tagsKey struct{ name oci.Name }

func (k tagsKey) String() string { return string(k.name) }

type referrersKey struct {
	name    oci.Name
	subject oci.Digest
}

func (k referrersKey) String() string { return string(k.name) + "@" + string(k.subject) }

// tags lists the tags of the upstream, sorted, or those that are stored if it fails. The
// warning is for clients, "" if the list is fresh enough.
func (c *Registry) tags(ctx context.Context, s *Source, r registry.Repository) (tags []string, warning string, err error) {
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

// referrers lists what refers to the subject at the upstream, sorted by digest, or what is
// stored if it fails. The warning is for clients, "" if the list is fresh enough.
func (c *Registry) referrers(ctx context.Context, s *Source, r registry.Repository, subject oci.Digest) (descs []oci.Descriptor, warning string, err error) {
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

// staleList counts a list that could not be checked, and returns the warning for the client.
func (s *Source) staleList(reason upstream.Reason) (warning string) {
	s.metrics.stale(reason)
	return s.warning(reason)
}

func orInvalid(err error) upstream.Reason {
	if reason := upstream.ReasonOf(err); reason != "" {
		return reason
	}
	return upstream.Invalid
}

// list returns a list that is as fresh as tags must be, or an older one with a warning. The
// error is an *upstream.Error, or that of ctx.
func (c *Registry) list(ctx context.Context, s *Source, key fmt.Stringer, get func(context.Context) (listed, error)) (l listed, warning string, err error) {
	l, known := c.lists.Get(key)
	if known && c.now().Sub(l.at) < s.TagTTL {
		return l, "", nil
	}
	if until, ok := c.unknown.Get(key); ok && c.now().Before(until) {
		return l, "", &upstream.Error{Reason: upstream.NotFound, Err: errors.New("the upstream didn't have it a moment ago")}
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
	now, err := once(ctx, c, &c.listing, key.String(), func() (listed, error) {
		l, err := get(c.ctx)
		s.note(err)
		c.noteUnknown(key, err)
		if err == nil {
			l.at = c.now()
			c.lists.Put(key, l, l.weight())
		}
		return l, err
	})
	if err != nil && known && upstream.ReasonOf(err) != upstream.NotFound && ctx.Err() == nil {
		return l, s.staleList(orInvalid(err)), nil
	}
	return now, "", err
}
