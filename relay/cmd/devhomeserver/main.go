//go:build goolm

// Command devhomeserver runs a local Matrix homeserver for development: what
// `make run` delivers to. It is not part of the product.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devhomeserver:", err)
		stop()
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "devhomeserver", Short: "A local Matrix homeserver for development", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newServeCommand(), newMessagesCommand())
	return root
}
