// Package pulls remembers when manifests were last pulled.
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

// Book takes notes of pulls without ever making one wait: it leaves out what it
// has just noted, and drops what it has no room for. A nil Book notes nothing.
type Book struct {
	file *File
	log  *zap.Logger
	seed maphash.Seed

	recent [slots]atomic.Uint64 // hash and window of the last note there
	window atomic.Uint64        // counts windows, so that nobody asks for the time
	queue  chan pull

	stop chan struct{}
	done sync.WaitGroup
}

type pull struct {
	name   oci.Name
	digest oci.Digest
}

// Open starts a book that is written to the file once a minute and when it is
// closed.
func Open(file *File, log *zap.Logger) *Book {
	b := &Book{file: file, log: log, seed: maphash.MakeSeed(), queue: make(chan pull, queueSize), stop: make(chan struct{})}
	b.window.Store(1)
	b.done.Go(b.run)
	return b
}

// Close writes what is left. Nothing is noted afterwards.
func (b *Book) Close() {
	if b == nil {
		return
	}
	close(b.stop)
	b.done.Wait()
}

// Note notes a pull that happens now.
func (b *Book) Note(name oci.Name, d oci.Digest) {
	if b == nil {
		return
	}
	h := maphash.String(b.seed, string(name))*31 + maphash.String(b.seed, string(d))
	slot, mark := &b.recent[h%slots], h&^0xffff|b.window.Load()&0xffff
	if slot.Load() == mark {
		return
	}
	select {
	case b.queue <- pull{name, d}:
		slot.Store(mark)
	default:
	}
}

func (b *Book) run() {
	flush, turn := time.NewTicker(flushEvery), time.NewTicker(window)
	defer flush.Stop()
	defer turn.Stop()
	var news Times
	for {
		select {
		case p := <-b.queue:
			news.Set(p.name, p.digest, time.Now())
		case <-turn.C:
			b.window.Add(1)
		case <-flush.C:
			news = b.flush(news)
		case <-b.stop:
			for len(b.queue) > 0 {
				p := <-b.queue
				news.Set(p.name, p.digest, time.Now())
			}
			b.flush(news)
			return
		}
	}
}

// flush returns what could not be written.
func (b *Book) flush(news Times) Times {
	if len(news.seconds) == 0 {
		return news
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushEvery)
	defer cancel()
	if err := b.file.Add(ctx, news); err != nil {
		b.log.Warn("the times of pulls cannot be written", zap.Error(err))
		if len(news.seconds) > maxTimes {
			return Times{}
		}
		return news
	}
	return Times{}
}
