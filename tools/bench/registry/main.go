// Command registry compares the registry with others that are installed and writes Markdown
// tables. It starts each of them on an empty directory, does the same work on each over HTTP, and
// takes the CPU time that the server used for it. Client and server share the machine, so CPU per
// operation says more than the rate.
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
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *connections < 1 || *duration <= 0 {
		return errors.New("-rounds, -connections and -time must be above 0")
	}
	o := Options{
		Peers:    append([]Peer{Ours(*binary)}, Installed()...),
		Rounds:   *rounds,
		Workload: Workload{Duration: *duration}, Connections: *connections,
		Directory: *directory, Log: stderr,
	}
	if *mirror {
		return measureMirrors(ctx, o, stdout)
	}
	switch {
	case *authentication:
		return measureAuth(ctx, o, stdout)
	case *store:
		return reportTimes(stdout)(o.OnObjectStore(ctx))
	}
	if !*collection {
		results, err := Run(ctx, o)
		if err == nil {
			err = Report(stdout, results)
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

func measureAuth(ctx context.Context, o Options, stdout io.Writer) error {
	costs, err := o.Auth(ctx, o.Peers[0])
	if err != nil {
		return err
	}
	return ReportAuth(stdout, costs)
}

func reportTimes(stdout io.Writer) func([]Timed, error) error {
	return func(times []Timed, err error) error {
		if err != nil {
			return err
		}
		return ReportTimes(stdout, times)
	}
}

func measureMirrors(ctx context.Context, o Options, stdout io.Writer) error {
	mirrors, err := o.Mirror(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\n%s", mirrors)
	return err
}
