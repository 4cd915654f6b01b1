package object

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many requests one call sends at the same time.
const atOnce = 16

// parallel calls f for each item, some at once, and returns when all have ended. After
// an error it begins no more.
func parallel[T any](items []T, f func(T) error) error {
	all, failed := errgroup.WithContext(context.Background())
	all.SetLimit(atOnce)
	for _, item := range items {
		if failed.Err() != nil {
			break
		}
		all.Go(func() error { return f(item) })
	}
	return all.Wait()
}
