package filesystem

import "sync/atomic"

// flush is one file or directory to be flushed.
type flush struct {
	fd    int
	dir   bool
	err   error
	batch *batch // of those that the kernel flushes together
}

// runFlushes flushes them all; each has its own error. Those of several commits
// are handed to the kernel together, where it can take them.
func (d *Driver) runFlushes(all []flush, several bool) {
	if several && d.aio != nil && len(all) > 1 {
		d.aio.flush(all)
		return
	}
	for i := range all {
		if f := &all[i]; !f.dir && len(all) > 1 {
			f.err = startWriteBack(f.fd, 0, 0, false)
		}
	}
	for i := range all {
		if f := &all[i]; f.err == nil {
			f.err = f.now()
		}
	}
}

// now flushes it in this thread.
func (f *flush) now() error {
	if !f.dir {
		return syncFile(f.fd)
	}
	return flushDir(f.fd)
}

// batch is what is waited for together.
type batch struct {
	left atomic.Int64
	done chan struct{}
}

func newBatch(n int) *batch {
	b := &batch{done: make(chan struct{})}
	b.left.Store(int64(n))
	return b
}

// finish notes that one of the batch is flushed, or cannot be.
func (b *batch) finish() {
	if b.left.Add(-1) == 0 {
		close(b.done)
	}
}
