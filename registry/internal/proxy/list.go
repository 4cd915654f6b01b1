package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

// descriptorWeight estimates the memory that a descriptor takes.
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

// tags lists the tags of the upstream, sorted, or those that are stored while it fails. The
// warning is for clients, "" unless it fails.
func (c *Registry) tags(ctx context.Context, s *Source, r registry.Repository) (tags []string, warning string, err error) {
	tags, err = ask(ctx, s, &c.tagLists, string(r.Name()), func() (list []string, err error) {
		found, err := s.Client.Tags(c.ctx, s.remote(r.Name()))
		for _, t := range found {
			list = append(list, string(t))
		}
		slices.Sort(list)
		return slices.Compact(list), err
	})
	if err == nil {
		return tags, "", nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	stored, _, failed := r.Tags(ctx, -1, "")
	if failed != nil {
		return nil, "", s.fault(err, oci.CodeNameUnknown)
	}
	return stored, s.staleList(orInvalid(err)), nil
}

// referrers lists what refers to the subject at the upstream, sorted by digest, or what is
// stored while it fails. The warning is for clients, "" unless it fails.
func (c *Registry) referrers(ctx context.Context, s *Source, r registry.Repository, subject oci.Digest) (descs []oci.Descriptor, warning string, err error) {
	descs, err = ask(ctx, s, &c.referrerLists, manifestKey{r.Name(), subject}.String(), func() ([]oci.Descriptor, error) {
		list, err := s.Client.Referrers(c.ctx, s.remote(r.Name()), subject)
		slices.SortFunc(list, func(a, b oci.Descriptor) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
		return slices.CompactFunc(list, func(a, b oci.Descriptor) bool { return a.Digest == b.Digest }), err
	})
	if err == nil {
		return descs, "", nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	warning = s.staleList(orInvalid(err))
	descs, _, err = r.Referrers(ctx, subject, "", "", maxReferrers)
	return descs, warning, err
}

// ask gets a list from the upstream, once for all callers that want it at the same time. The
// error is an *upstream.Error, or that of ctx.
func ask[V any](ctx context.Context, s *Source, group *cache.Group[V], key string, get func() (V, error)) (list V, err error) {
	reason, left := s.pause()
	if s.Offline {
		reason = offline
	}
	if reason != "" {
		return list, &upstream.Error{Reason: reason, RetryAfter: left, Err: errors.New("not asked again yet")}
	}
	return once(ctx, s.cache, group, key, func() (V, error) {
		list, err := get()
		s.note(err)
		return list, err
	})
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
