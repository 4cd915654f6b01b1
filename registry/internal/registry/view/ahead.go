package view

import "sync"

// AtOnce is how many requests to a remote store one request of a client waits for at the
// same time.
const AtOnce = 16

// Ahead begins f at once where the store is remote. Elsewhere f is called when its result is
// asked for, if it is. f ends with the request's context.
func Ahead[T any](v *View, f func() (T, error)) func() (T, error) {
	if !v.Remote {
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

// Each calls f for each of n and returns the first error in their order. Where the store is
// remote, several are called at the same time, and all.
func (v *View) Each(n int, f func(i int) error) error {
	if !v.Remote || n == 1 {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	free := make(chan struct{}, AtOnce)
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
