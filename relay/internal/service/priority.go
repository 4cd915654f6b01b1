package service

import (
	"fmt"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// priorityOf returns the priority of a message: its own, or the application's default.
func priorityOf(app *store.Application, r post.Draft) (int, error) {
	if r.Priority == nil {
		return app.DefaultPriority, nil
	}
	if p := *r.Priority; p >= post.MinPriority && p <= post.MaxPriority {
		return p, nil
	}
	return 0, refusal.Invalid("priority", fmt.Sprintf("The priority must be min, low, normal, high or max, or a number from %d to %d.", post.MinPriority, post.MaxPriority))
}
