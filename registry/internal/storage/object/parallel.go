package object

import (
	"errors"
	"sync"
)

// atOnce is the number of requests that one call sends at the same time.
const atOnce = 16

// parallel calls f for each item, some in parallel, and returns when all have ended. After
// an error it begins no more.
func parallel[T any](items []T, f func(T) error) error {
	if len(items) == 1 {
		return f(items[0])
	}
	var mu sync.Mutex
	var errs []error
	free := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, item := range items {
		free <- struct{}{}
		mu.Lock()
		failed := len(errs) > 0
		mu.Unlock()
		if failed {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			if err := f(item); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
