package server

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Hangups returns a channel with the SIGHUPs that the process gets, which end it no longer, until stop.
func Hangups() (hangups <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// OnHangup calls reload for each signal until stop, which blocks while a call is in progress.
func OnHangup(ctx context.Context, hangups <-chan os.Signal, reload func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		for {
			select {
			case <-hangups:
				reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}
