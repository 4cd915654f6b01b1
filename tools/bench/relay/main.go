// Command relay measures the relay alongside PushBits and Gotify, if those are installed: what they accept and deliver a second,
// how long that takes, and what it costs. It writes one Markdown table.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
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
	rate := flags.Float64("rate", 0, "offer only this many messages a second, over 16 connections")
	devices := flags.Int("devices", 1, "that read in each encrypted room")
	postgres := flags.String("postgres", "", "measure on the PostgreSQL server of this `connection` string as well; its user may create databases")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ours, err := filepath.Abs(*binary)
	if err != nil {
		return err
	}
	peers := []Peer{Ours(ours), Encrypted(Ours(ours), *devices)}
	if *postgres != "" {
		peers = append(peers, OursOnPostgres(ours, func() (string, error) { return newDatabase(ctx, *postgres) }))
	}
	o := Options{
		Peers: append(peers, Installed()...), Duration: *duration, Rooms: *rooms, Directory: *directory, Log: stderr,
	}
	if *rate > 0 {
		o.Loads = []Load{{Connections: 16, Rate: *rate}}
	}
	results, err := Run(ctx, o)
	if err != nil {
		return err
	}
	return Report(stdout, results)
}
