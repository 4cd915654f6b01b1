// Package lastpull is the index of when manifests were last pulled.
package lastpull

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

const flushEvery = time.Minute

// Recorder collects pulls in memory and writes them to a file once a minute and
// when it is closed. A nil Recorder records nothing.
type Recorder struct {
	file *File
	log  *zap.Logger

	mu      sync.Mutex
	news    Times // that the file doesn't have
	writing Times // news that are being written

	stop chan struct{}
	done sync.WaitGroup
}

// Start starts a recorder.
func Start(file *File, log *zap.Logger) *Recorder {
	r := &Recorder{file: file, log: log, stop: make(chan struct{})}
	file.recorder.Store(r)
	r.done.Go(r.run)
	return r
}

// Close writes what is left. Nothing may be recorded afterwards.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Set(name, d, time.Now())
}

func (r *Recorder) run() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.flush()
		case <-r.stop:
			r.flush()
			return
		}
	}
}

func (r *Recorder) flush() {
	r.mu.Lock()
	news := r.news
	r.news, r.writing = Times{}, news
	r.mu.Unlock()
	if news.Empty() {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writing = Times{}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), flushEvery)
	defer cancel()
	if err := r.file.Add(ctx, news); err != nil {
		r.log.Warn("cannot write the times of pulls", zap.Error(err))
		if len(news.seconds) <= maxTimes {
			r.mu.Lock()
			r.news.add(news)
			r.mu.Unlock()
		}
	}
}

// unwritten returns what the file may lack.
func (r *Recorder) unwritten() (t Times) {
	if r == nil {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.add(r.writing)
	t.add(r.news)
	return t
}
