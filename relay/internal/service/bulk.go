package service

import (
	"context"
	"slices"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

// MaxBulk is how many messages one call of RedeliverAll or CancelAll changes.
const MaxBulk = 500

// Bulk is the result of RedeliverAll and CancelAll.
type Bulk struct {
	Done int
	More bool // more messages match than one call changes
}

// CanRedeliverAll reports whether RedeliverAll takes a filter with these states.
func CanRedeliverAll(states []post.State) bool { return all(states, post.State.Redeliverable) }

// CanCancelAll reports whether CancelAll takes a filter with these states. Messages that were sent are withdrawn one by one.
func CanCancelAll(states []post.State) bool { return all(states, post.State.Cancellable) }

func all(states []post.State, are func(post.State) bool) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s post.State) bool { return !are(s) })
}

// RedeliverAll queues messages again that f selects. f must name their states.
func (s *Intake) RedeliverAll(ctx context.Context, v account.Principal, f Filter) (Bulk, error) {
	if !CanRedeliverAll(f.States) {
		return Bulk{}, refusal.Invalid("state", "Name the states of the messages: "+post.OneOf(post.RedeliverableStates)+".")
	}
	return s.bulk(ctx, v, f, s.Redeliver)
}

// CancelAll withdraws messages that f selects. f must name their states.
func (s *Intake) CancelAll(ctx context.Context, v account.Principal, f Filter) (Bulk, error) {
	if !CanCancelAll(f.States) {
		return Bulk{}, refusal.Invalid("state", "Name the states of the messages: "+post.OneOf(post.CancellableStates)+".")
	}
	return s.bulk(ctx, v, f, s.Cancel)
}

// bulk changes messages one by one and skips those whose state changed meanwhile, or that may not be changed.
func (s *Intake) bulk(ctx context.Context, v account.Principal, f Filter, change func(context.Context, account.Principal, int64) (post.View, error)) (b Bulk, err error) {
	for f.Limit = MaxPage; ; {
		page, err := s.Messages(ctx, v, f)
		if err != nil {
			return b, err
		}
		for _, m := range page.Messages {
			if b.Done == MaxBulk {
				b.More = true
				return b, nil
			}
			switch _, err := change(ctx, v, m.ID); refusal.KindOf(err) {
			case "":
				b.Done++
			case refusal.KindConflict, refusal.KindNotFound, refusal.KindForbidden:
			default:
				return b, err
			}
		}
		if f.Before = page.Next; f.Before == 0 {
			return b, nil
		}
	}
}
