//go:build !linux

package filesystem

// aio does not exist here: flushes are made one by one.
type aio struct{}

func startAIO() *aio { return nil }

func (a *aio) stop() {}

func (a *aio) flush([]*flush) {}
