// Command bench compares the relay with those that are installed beside it and
// writes one Markdown table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"slipway/relay/internal/bench"
	"slipway/relay/internal/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("relay", "bin/relay", "the `binary` to measure")
	duration := flags.Duration("time", 6*time.Second, "how long each load is offered")
	rooms := flags.Int("rooms", 8, "applications, each with a room of its own")
	directory := flags.String("dir", "", "where databases are written; on the `disk` to measure")
	rate := flags.Float64("rate", 0, "offer only so many messages a second, over 16 connections")
	devices := flags.Int("devices", 1, "that read in each encrypted room")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ours, err := filepath.Abs(*binary)
	if err != nil {
		return err
	}
	peers := []bench.Peer{bench.Ours(ours), bench.Encrypted(bench.Ours(ours), *devices)}
	server, err := pgtest.Start(ctx, pgtest.Options{Durable: true})
	switch {
	case err == nil:
		defer server.Remove()
		peers = append(peers, bench.OursOnPostgres(ours, func() (string, error) {
			name, err := server.NewDatabase(ctx)
			return server.DSN(name), err
		}))
	case errors.Is(err, pgtest.ErrMissing):
		fmt.Fprintln(stderr, err)
	default:
		return err
	}
	o := bench.Options{
		Peers: append(peers, bench.Installed()...), Duration: *duration, Rooms: *rooms, Directory: *directory, Log: stderr,
	}
	if *rate > 0 {
		o.Loads = []bench.Load{{Connections: 16, Rate: *rate}}
	}
	results, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return bench.Report(stdout, results)
}
