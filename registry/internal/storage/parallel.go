package storage

import (
	"sync"
	"sync/atomic"
)

// AtOnce is the number of requests that one operation sends to a remote store at the same time.
const AtOnce = 16

// Each calls f for each number below n, up to limit of them at the same time. After an error it begins no more,
// and when all have ended, it returns the first in the order of the numbers.
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
	var failed atomic.Bool
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		if failed.Load() {
			break
		}
		all.Go(func() {
			defer func() { <-free }()
			if errs[i] = f(i); errs[i] != nil {
				failed.Store(true)
			}
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
