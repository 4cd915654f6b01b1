package relay

import (
	"context"

	"slipway/relay/internal/format"
)

// ReplaceRender replaces what renders messages until restore is called.
func ReplaceRender(f func(format.Message, format.Options) []format.Event) (restore func()) {
	was := renderEvents
	renderEvents = f
	return func() { renderEvents = was }
}

// Term is term, for a test.
func (s *Service) Term(ctx context.Context) { s.term(ctx) }

// TakeLease takes the lease if it is free.
func (s *Service) TakeLease(ctx context.Context) bool { return s.lease.Take(ctx) }

// MaySend reports whether this relay holds a valid lease.
func (s *Service) MaySend() bool { return s.lease.Valid() }
