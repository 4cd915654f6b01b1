// Command registry is Slipway's registry service.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"slipway/shared/command"
)

// timerSlack is how late timers may be: docs/decisions/0013-timer-slack.md.
const timerSlack = time.Millisecond

func main() {
	if serves(os.Args[1:]) {
		command.AllowSlack(timerSlack)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // whoever asks twice does not want to wait
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}
