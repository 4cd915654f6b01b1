package cache

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Group coalesces concurrent calls for the same key into one.
type Group[V any] struct {
	calls singleflight.Group
}

// Do returns the result of work, which runs once for all callers that ask for the key while it
// runs. work must not depend on the context of its caller, who may leave before it ends: Do
// returns when ctx ends, and work goes on for the others.
func (g *Group[V]) Do(ctx context.Context, key string, work func() (V, error)) (V, error) {
	result := g.calls.DoChan(key, func() (any, error) { return work() })
	select {
	case r := <-result:
		value, _ := r.Val.(V) // a nil interface is the zero value
		return value, r.Err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}
