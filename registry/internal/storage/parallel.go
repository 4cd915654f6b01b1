package storage

import "sync"

// AtOnce is the number of requests that one operation sends to a remote store at the same time.
const AtOnce = 16

// Each calls f for each number below n, up to limit of them at the same time, and returns when all have
// ended: the first error in the order of the numbers. With a limit of 1 it ends at the first error.
func Each(n, limit int, f func(i int) error) error {
	if limit == 1 || n == 1 {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	free := make(chan struct{}, limit)
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Ahead begins f at once if now is true; otherwise f is called when its result is asked for, if it is.
func Ahead[T any](now bool, f func() (T, error)) func() (T, error) {
	if !now {
		return f
	}
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	return func() (T, error) {
		<-done
		return value, err
	}
}
