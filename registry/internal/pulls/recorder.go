// Package pulls is the index of when manifests were last pulled.
package pulls

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

const (
	flushEvery = time.Minute
	slots      = 1 << 12
	queueSize  = 1 << 10
	window     = 5 * time.Minute // pulls of one manifest within it are one
)

// Recorder records pulls without ever making one wait: it leaves out what it has
// just recorded, and drops what it has no room for. A nil Recorder records nothing.
type Recorder struct {
	file *File
	log  *zap.Logger
	seed maphash.Seed

	recent [slots]atomic.Uint64 // hash and window of the last record there
	window atomic.Uint64        // counts windows, so that a pull does not read the clock
	queue  chan pull

	stop chan struct{}
	done sync.WaitGroup
}

type pull struct {
	name   oci.Name
	digest oci.Digest
}

// Start starts a recorder that writes to the file once a minute and when it is
// closed.
func Start(file *File, log *zap.Logger) *Recorder {
	r := &Recorder{file: file, log: log, seed: maphash.MakeSeed(), queue: make(chan pull, queueSize), stop: make(chan struct{})}
	r.window.Store(1)
	r.done.Go(r.run)
	return r
}

// Close writes what is left. Nothing is recorded afterwards.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	close(r.stop)
	r.done.Wait()
}

// Record records a pull that happens now.
func (r *Recorder) Record(name oci.Name, d oci.Digest) {
	if r == nil {
		return
	}
	h := maphash.String(r.seed, string(name))*31 + maphash.String(r.seed, string(d))
	slot, mark := &r.recent[h%slots], h&^0xffff|r.window.Load()&0xffff
	if slot.Load() == mark {
		return
	}
	select {
	case r.queue <- pull{name, d}:
		slot.Store(mark)
	default:
	}
}

func (r *Recorder) run() {
	flush, turn := time.NewTicker(flushEvery), time.NewTicker(window)
	defer flush.Stop()
	defer turn.Stop()
	var news Times
	for {
		select {
		case p := <-r.queue:
			news.Set(p.name, p.digest, time.Now())
		case <-turn.C:
			r.window.Add(1)
		case <-flush.C:
			news = r.flush(news)
		case <-r.stop:
			for len(r.queue) > 0 {
				p := <-r.queue
				news.Set(p.name, p.digest, time.Now())
			}
			r.flush(news)
			return
		}
	}
}

// flush returns what could not be written.
func (r *Recorder) flush(news Times) Times {
	if len(news.seconds) == 0 {
		return news
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushEvery)
	defer cancel()
	if err := r.file.Add(ctx, news); err != nil {
		r.log.Warn("cannot write the times of pulls", zap.Error(err))
		if len(news.seconds) > maxTimes {
			return Times{}
		}
		return news
	}
	return Times{}
}
