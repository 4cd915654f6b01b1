package main

import "runtime"

// ballast makes the heap larger by so many bytes that nobody touches, so that no
// memory is behind them, until it is dropped. Go collects garbage whenever the
// heap has doubled; that of a registry is so small that this would happen many
// times a second.
func ballast(size int) (drop func()) {
	untouched := make([]byte, size)
	return func() { runtime.KeepAlive(untouched) }
}
