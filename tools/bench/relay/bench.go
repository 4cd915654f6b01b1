package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"
)

// Options say what is measured.
type Options struct {
	Peers     []Peer
	Loads     []Load        // nil means [DefaultLoads]
	Duration  time.Duration // of each load
	Rooms     int           // applications, each with a room of its own
	Directory string        // where databases are written, on the disk to measure; "" means the system's
	Log       io.Writer
}

// DefaultLoads are full speed over one, a few and many connections, and two rates.
var DefaultLoads = []Load{{Connections: 1}, {Connections: 16}, {Connections: 64}, {Connections: 16, Rate: 300}, {Connections: 16, Rate: 1000}}

// Result describes one relay under one load.
type Result struct {
	Peer      string
	Load      Load
	Accepted  int
	Refused   int
	Missing   int     // accepted and not delivered
	Repeats   int     // sent twice
	TakenIn   float64 // messages a second
	Delivered float64 // messages a second, 0 where nothing is delivered
	AnswerP50 time.Duration
	AnswerP99 time.Duration
	ArriveP50 time.Duration // from the post to the event at the homeserver
	ArriveP99 time.Duration
	CPU       time.Duration // of one message
	Peak      int64         // MiB
}

// Run measures each relay under each load, every time with an empty database.
func Run(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	loads := o.Loads
	if loads == nil {
		loads = DefaultLoads
	}
	for _, l := range loads {
		for _, peer := range o.Peers {
			fmt.Fprintf(o.Log, "%s, %s\n", peer.Name, l)
			r, err := o.measure(ctx, peer, l)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", peer.Name, l, err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

func (o Options) measure(ctx context.Context, peer Peer, l Load) (r Result, err error) {
	dir, err := os.MkdirTemp(o.Directory, "relay-bench-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hs, err := startSink(ctx)
	if err != nil {
		return r, err
	}
	defer hs.stop()
	if peer.devices > 0 {
		if err := hs.startDevices(ctx, peer.devices); err != nil {
			return r, err
		}
	}
	p, err := start(ctx, peer, dir, hs.url)
	if err != nil {
		return r, err
	}
	defer p.Stop()
	tokens, err := o.applications(ctx, peer, p, hs)
	if err != nil {
		return r, err
	}
	before, err := p.CPU()
	if err != nil {
		return r, err
	}
	began := time.Now()
	s := offer(ctx, p.url, tokens, l, o.Duration)
	if peer.Delivers {
		waitFor(hs, len(s.at))
	}
	after, err := p.CPU()
	if err != nil {
		return r, err
	}
	if r = result(s, hs, began); len(s.at) > 0 {
		r.CPU = (after - before) / time.Duration(len(s.at))
	}
	r.Peer, r.Load = peer.Name, l
	if !peer.Delivers {
		r.Missing = 0
	}
	peak, err := p.Peak()
	r.Peak = peak >> 20
	return r, err
}

// applications makes the rooms and sends a first message into each.
func (o Options) applications(ctx context.Context, peer Peer, p *server, hs *sink) (tokens []string, err error) {
	for i := range o.Rooms {
		room := fmt.Sprintf("!bench%d:bench.test", i)
		hs.join(room)
		token, err := p.application(ctx, peer, fmt.Sprint("bench ", i), room)
		if err != nil {
			return nil, err
		}
		posted := time.Now()
		if err := post(ctx, http.DefaultClient, p.url, token, fmt.Sprint("first", i)); err != nil {
			return nil, err
		}
		if peer.Delivers && i == 0 {
			waitFor(hs, 1)
			fmt.Fprintf(o.Log, "%s: the first message arrived after %d ms\n", peer.Name, time.Since(posted).Milliseconds())
		}
		tokens = append(tokens, token)
	}
	if peer.Delivers {
		waitFor(hs, o.Rooms)
	}
	time.Sleep(time.Second) // for what follows in the background
	hs.reset()
	return tokens, nil
}

// waitFor waits until n events have come, or nothing comes any more.
func waitFor(hs *sink, n int) {
	last, still := -1, time.Now()
	for now := hs.count(); now < n && time.Since(still) < 10*time.Second; now = hs.count() {
		if now != last {
			last, still = now, time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func result(s sent, hs *sink, began time.Time) Result {
	arrived, repeats := hs.seen()
	r := Result{Accepted: len(s.at), Refused: s.refused, Repeats: repeats, TakenIn: float64(len(s.at)) / s.took.Seconds()}
	var last time.Time
	var delays []time.Duration
	for key, at := range s.at {
		there, ok := arrived[key]
		if !ok {
			r.Missing++
			continue
		}
		delays = append(delays, there.Sub(at))
		if there.After(last) {
			last = there
		}
	}
	if len(delays) > 0 {
		r.Delivered = float64(len(delays)) / last.Sub(began).Seconds()
	}
	r.AnswerP50, r.AnswerP99 = quantile(s.answers, 0.5), quantile(s.answers, 0.99)
	r.ArriveP50, r.ArriveP99 = quantile(delays, 0.5), quantile(delays, 0.99)
	return r
}

// quantile returns the value below which the part q of all lies; 0 of none.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(float64(len(d))*q))]
}
