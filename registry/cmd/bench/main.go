// Command bench compares the registry with those that are installed beside it
// and writes Markdown tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"slipway/registry/internal/bench"
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
	binary := flags.String("registry", "bin/registry", "the `binary` to measure")
	rounds := flags.Int("rounds", 3, "how often each registry is measured")
	connections := flags.Int("connections", 16, "how many clients work at once")
	duration := flags.Duration("time", 2*time.Second, "how long each kind of work is done")
	directory := flags.String("dir", "", "where data is written; choose a directory on the `disk` to measure")
	collection := flags.Bool("collection", false, "measure nothing but pulls while garbage is collected")
	mirror := flags.Bool("mirror", false, "measure nothing but pull-through caches")
	authentication := flags.Bool("auth", false, "measure nothing but what authentication costs, and guesses at passwords")
	store := flags.Bool("objectstore", false, "measure nothing but the time of work on a MinIO that is 20 ms away")
	garbage := flags.Int("objectstore-garbage", 0, "measure nothing but deletion and collection of that many `blobs` on that MinIO")
	memory := flags.Bool("objectstore-memory", false, "measure nothing but memory while 16 clients push layers of 512 MiB to a MinIO; needs 9 GiB of disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *connections < 1 || *duration <= 0 {
		return errors.New("-rounds, -connections and -time must be above 0")
	}
	o := bench.Options{
		Peers:    append([]bench.Peer{bench.Ours(*binary)}, bench.Installed()...),
		Rounds:   *rounds,
		Workload: bench.Workload{Duration: *duration}, Connections: *connections,
		Directory: *directory, Log: stderr,
	}
	if *mirror {
		return measureMirrors(ctx, o, stdout)
	}
	switch {
	case *authentication:
		return measureAuth(ctx, o, stdout)
	case *store:
		return reportTimes(stdout)(o.OnObjectStore(ctx, openBucket))
	case *garbage > 0:
		return reportTimes(stdout)(o.CollectOnObjectStore(ctx, openBucket, *garbage))
	case *memory:
		return reportTimes(stdout)(o.MemoryOnObjectStore(ctx, openBucket))
	}
	if !*collection {
		results, err := bench.Run(ctx, o)
		if err == nil {
			err = bench.Report(stdout, results)
		}
		if err != nil {
			return err
		}
	}
	beside, err := o.CollectBeside(ctx, o.Peers[0])
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(stdout, beside); err != nil || *collection {
		return err
	}
	if err := measureMirrors(ctx, o, stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return measureAuth(ctx, o, stdout)
}

func measureAuth(ctx context.Context, o bench.Options, stdout io.Writer) error {
	costs, err := o.Auth(ctx, o.Peers[0])
	if err != nil {
		return err
	}
	return bench.ReportAuth(stdout, costs)
}

func reportTimes(stdout io.Writer) func([]bench.Timed, error) error {
	return func(times []bench.Timed, err error) error {
		if err != nil {
			return err
		}
		return bench.ReportTimes(stdout, times)
	}
}

func measureMirrors(ctx context.Context, o bench.Options, stdout io.Writer) error {
	mirrors, err := o.Mirror(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\n%s", mirrors)
	return err
}
